// Well-formed UTF-8 in bytes that need not be (Unicode 15.0, section 3.9, table 3-7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvant {

enum class Utf8Form : uint8_t {
  kValid,
  kTruncated,  // a well-formed beginning that the end of the text cuts off
  kInvalid,
};

struct Utf8Character {
  Utf8Form form = Utf8Form::kInvalid;
  // Length in the text. Of an invalid sequence: as much as could have begun a character, at least
  // 1 ("maximal subpart", section 3.9), so that one U+FFFD stands for what one broken character
  // left behind.
  uint32_t bytes = 0;
  char32_t code_point = 0;  // where valid
};

// The character at `position`. REQUIRES: position < text.size().
Utf8Character DecodeUtf8(std::string_view text, size_t position);

}  // namespace kvant
