// Byte counts: checked arithmetic and the text people write them in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvant {

// Both throw Error{kInvalidInput} naming `what` when the result does not fit 64 bits.
uint64_t CheckedAdd(uint64_t a, uint64_t b, std::string_view what);
uint64_t CheckedMul(uint64_t a, uint64_t b, std::string_view what);

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr uint64_t DivideRoundUp(uint64_t value, uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// "8GiB", "512MiB", "1.5GB", "4096": binary units (KiB, MiB, GiB, TiB) and decimal ones (KB, MB,
// GB, TB) are different things. Throws Error{kUsage} on anything else.
uint64_t ParseBytes(std::string_view text);

// "1.50 GiB", "640 B": binary units, three significant digits.
std::string FormatBytes(uint64_t bytes);

// "512", "2K" (2,048), "128K", "1M": token counts, K = 1,024. Throws Error{kUsage}.
uint64_t ParseTokens(std::string_view text);

// 2048 -> "2K", 600 -> "600".
std::string FormatTokens(uint64_t tokens);

}  // namespace kvant
