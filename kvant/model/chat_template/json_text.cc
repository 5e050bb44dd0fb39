#include "kvant/model/chat_template/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

Value FromJsonAt(const OrderedJson& json, size_t depth, Budget& budget) {
  // The recursion is bounded before the makers see the depth.
  if (depth > budget.limits().value_depth) {
    Fail(fmt::format("takes input nested deeper than {} levels", budget.limits().value_depth));
  }
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::number_float:
      return Value(json.get<double>());
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        Fail("takes an integer beyond 64 bits with sign as input");
      }
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return NewText(IsValidUtf8(text) ? text : Encode(Decode(text)), budget);
    }
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(FromJsonAt(item, depth + 1, budget));
      return NewList(std::move(items), budget);
    }
    case OrderedJson::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, item] : json.items()) {
        items.emplace_back(FromJsonAt(OrderedJson(key), depth + 1, budget),
                           FromJsonAt(item, depth + 1, budget));
      }
      return NewDict(std::move(items), budget);
    }
    default:
      return Value(None{});
  }
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void Write(const Value& value) {
    budget_.Step();
    int64_t integer = 0;
    if (value.IsNone()) {
      out_ += "null";
    } else if (value.IsBool()) {
      out_ += IsTrue(value) ? "true" : "false";
    } else if (value.AsInteger(integer)) {
      out_ += std::to_string(integer);
    } else if (const double* number = std::get_if<double>(&value.data())) {
      WriteFloat(*number);
    } else if (const std::string* text = value.AsText()) {
      WriteText(*text);
    } else if (const Dict* dict = value.AsDict()) {
      WriteDict(*dict);
    } else if (const List* list = value.AsList(); list != nullptr && IsArray(*list)) {
      WriteArray(*list);
    } else {
      Fail(fmt::format("tojson cannot write a {}", TypeName(value)));
    }
    if (out_.size() > budget_.limits().text_bytes) budget_.Text(out_.size());
  }

  std::string Take() { return std::move(out_); }

 private:
  static bool IsArray(const List& list) {
    return list.kind == ListKind::kList || list.kind == ListKind::kTuple;
  }

  void WriteFloat(double number) {
    if (std::isnan(number)) {
      out_ += "NaN";
    } else if (std::isinf(number)) {
      out_ += number < 0 ? "-Infinity" : "Infinity";
    } else {
      out_ += FloatText(number);
    }
  }

  void WriteEscape(char32_t c) {
    if (c >= 0x10000) {
      out_ += fmt::format("\\u{:04x}", 0xD800 + ((static_cast<uint32_t>(c) - 0x10000) >> 10));
      c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  }

  void WriteText(std::string_view text) {
    budget_.Step(text.size() / 16);
    out_ += '"';
    for (const char32_t c : Decode(text)) {
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ascii_only && c > 0x7E)) {
            WriteEscape(c);
          } else {
            AppendUtf8(c, out_);
          }
      }
    }
    out_ += '"';
  }

  void NewLine() {
    if (!style_.indented) return;
    out_ += '\n';
    for (size_t i = 0; i < level_; ++i) out_ += style_.indent;
  }

  void WriteArray(const List& list) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      Write(list.items[i]);
    }
    --level_;
    NewLine();
    out_ += ']';
  }

  void WriteDict(const Dict& dict) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [this](const auto* left, const auto* right) {
        return Compare(left->first, right->first, budget_) < 0;
      });
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine();
      WriteKey(items[i]->first);
      out_ += style_.key_separator;
      Write(items[i]->second);
    }
    --level_;
    NewLine();
    out_ += '}';
  }

  void WriteKey(const Value& key) {
    if (key.AsText() != nullptr) return Write(key);
    out_ += '"';
    Write(key);
    out_ += '"';
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
  size_t level_ = 0;
};

}  // namespace

Value FromJson(const OrderedJson& json, Budget& budget) { return FromJsonAt(json, 1, budget); }

std::string JsonText(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  writer.Write(value);
  return writer.Take();
}

}  // namespace kvant::jinja
