// JSON in and out of template values, as Python's json module writes it.
#pragma once

#include <string>

#include "kvant/core/json.h"
#include "kvant/model/chat_template/value.h"

namespace kvant {

// JSON whose objects keep the order in which their keys were given, which tojson shows.
using OrderedJson = nlohmann::ordered_json;

namespace jinja {

struct JsonStyle {
  bool ascii_only = false;
  bool sort_keys = false;
  // Text of one level of indentation; used only if `indented`.
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Bytes that are not UTF-8 become U+FFFD. Fails on integers beyond int64 and past a limit.
Value FromJson(const OrderedJson& json, Budget& budget);

// Fails on values that JSON does not have, such as undefined ones.
std::string JsonText(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace jinja
}  // namespace kvant
