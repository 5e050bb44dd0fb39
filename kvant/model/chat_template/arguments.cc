#include "kvant/model/chat_template/arguments.h"

#include <fmt/format.h>

namespace kvant::jinja {

const Value* ArgumentReader::Next(std::string_view name) {
  if (position_ < arguments_.positional.size()) return &arguments_.positional[position_++];
  for (const auto& [key, value] : arguments_.named) {
    if (key != name) continue;
    ++named_;
    return &value;
  }
  return nullptr;
}

const Value& ArgumentReader::Required(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr) Fail(fmt::format("{} lacks its argument '{}'", function_, name));
  return *value;
}

const std::string& ArgumentReader::RequiredText(std::string_view name) {
  const Value& value = Required(name);
  if (value.AsText() == nullptr) {
    Fail(fmt::format("{} takes a string as '{}', not a {}", function_, name, TypeName(value)));
  }
  return *value.AsText();
}

const std::string* ArgumentReader::OptionalText(std::string_view name) {
  const Value* value = Next(name);
  if (value == nullptr || value->IsNone()) return nullptr;
  if (value->AsText() == nullptr) {
    Fail(fmt::format("{} takes a string as '{}', not a {}", function_, name, TypeName(*value)));
  }
  return value->AsText();
}

int64_t ArgumentReader::Integer(std::string_view name, int64_t fallback) {
  const Value* value = Next(name);
  if (value == nullptr || value->IsNone()) return fallback;
  int64_t number = 0;
  if (!value->AsInteger(number)) {
    Fail(fmt::format("{} takes an integer as '{}', not a {}", function_, name, TypeName(*value)));
  }
  return number;
}

bool ArgumentReader::Truth(std::string_view name, bool fallback) {
  const Value* value = Next(name);
  return value == nullptr ? fallback : IsTrue(*value);
}

void ArgumentReader::Finish() const {
  if (position_ < arguments_.positional.size() || named_ < arguments_.named.size()) {
    Fail(fmt::format("{} has an argument that it does not take", function_));
  }
}

}  // namespace kvant::jinja
