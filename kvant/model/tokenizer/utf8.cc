#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

// What the first byte of a character says about the rest.
struct Lead {
  uint32_t bytes = 0;  // of the whole character; 0: no character begins so
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {.bytes = 2};
  if (byte == 0xE0) return {.bytes = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.bytes = 3, .second_max = 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {.bytes = 3};
  if (byte == 0xF0) return {.bytes = 4, .second_min = 0x90};
  if (byte == 0xF4) return {.bytes = 4, .second_max = 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {.bytes = 4};
  return {};
}

}  // namespace

Utf8Character DecodeUtf8(std::string_view text, size_t position) {
  const auto first = static_cast<uint8_t>(text[position]);
  if (first < 0x80) return {Utf8Form::kValid, 1, first};
  const Lead lead = LeadOf(first);
  if (lead.bytes == 0) return {Utf8Form::kInvalid, 1, 0};
  // A lead byte of n bytes carries 7 - n bits, each further byte 6.
  char32_t code_point = first & (0x7FU >> lead.bytes);
  for (uint32_t i = 1; i < lead.bytes; ++i) {
    if (position + i == text.size()) return {Utf8Form::kTruncated, i, 0};
    const auto byte = static_cast<uint8_t>(text[position + i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Form::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3FU);
  }
  return {Utf8Form::kValid, lead.bytes, code_point};
}

}  // namespace kvant
