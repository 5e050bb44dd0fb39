#include "kvant/core/json.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "kvant/core/error.h"

namespace kvant {

Json ParseJson(std::string_view text, std::string_view source, size_t max_depth) {
  // The parser recurses once per level, so depth is bounded before it starts.
  size_t depth = 0;
  bool in_string = false;
  bool escaped = false;
  for (const char c : text) {
    if (in_string) {
      if (escaped) {
        escaped = false;
      } else if (c == '\\') {
        escaped = true;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') in_string = true;
    if ((c == '[' || c == '{') && ++depth > max_depth) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: JSON nested deeper than {} levels", source, max_depth));
    }
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const Json::parser_callback_t reject_duplicates = [&](int, Json::parse_event_t event,
                                                        Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      duplicate = value.get<std::string>();
    }
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, reject_duplicates);
  } catch (const Json::exception& failure) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", source, failure.what()));
  }
  if (!duplicate.empty()) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: key '{}' stands twice", source, duplicate));
  }
  return document;
}

}  // namespace kvant
