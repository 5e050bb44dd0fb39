// JSON from untrusted sources: nlohmann's parser behind limits.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace kvant {

using Json = nlohmann::json;

// Parses one document. Throws Error{kInvalidInput} naming `source` on malformed text, on invalid
// UTF-8, on duplicate keys in an object and beyond `max_depth` nested arrays and objects.
Json ParseJson(std::string_view text, std::string_view source, size_t max_depth = 64);

}  // namespace kvant
