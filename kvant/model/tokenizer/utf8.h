// UTF-8, one character at a time, from bytes that need not be valid.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvant {

struct Utf8Character {
  int32_t code_point = -1;  // -1: the byte starts no valid character
  size_t bytes = 1;
};

// The character that starts at text[at]. REQUIRES: at < text.size().
inline Utf8Character Utf8At(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return {};
  int32_t code = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

}  // namespace kvant
