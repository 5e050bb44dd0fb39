#include "kvant/core/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "kvant/core/error.h"

namespace kvant {

uint64_t CheckedAdd(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} + {} overflows 64 bits", what, a, b));
  }
  return sum;
}

uint64_t CheckedMul(uint64_t a, uint64_t b, std::string_view what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: {} x {} overflows 64 bits", what, a, b));
  }
  return product;
}

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"B", 1},
                                          {"KiB", 1024.0},
                                          {"MiB", 1024.0 * 1024},
                                          {"GiB", 1024.0 * 1024 * 1024},
                                          {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12}}};

// Splits "1.5GiB" into 1.5 and "GiB"; false if there is no leading number.
bool SplitNumber(std::string_view text, double* number, std::string_view* unit) {
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), *number, std::chars_format::fixed);
  if (result.ec != std::errc()) return false;
  *unit = text.substr(static_cast<size_t>(result.ptr - text.data()));
  while (!unit->empty() && unit->front() == ' ') unit->remove_prefix(1);
  return std::isfinite(*number) && *number >= 0;
}

}  // namespace

uint64_t ParseBytes(std::string_view text) {
  double number = 0;
  std::string_view unit;
  if (SplitNumber(text, &number, &unit)) {
    for (const Unit& candidate : kUnits) {
      if (candidate.name != unit) continue;
      const double bytes = number * candidate.bytes;
      if (bytes < 9.0e18) return static_cast<uint64_t>(bytes);
    }
  }
  throw Error(ErrorCode::kUsage, fmt::format("not a number of bytes: '{}'", text),
              "write 8GiB, 512MiB, 1.5GB or a plain number of bytes");
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

uint64_t ParseTokens(std::string_view text) {
  double number = 0;
  std::string_view unit;
  if (SplitNumber(text, &number, &unit)) {
    const double factor = unit.empty()                   ? 1
                          : (unit == "K" || unit == "k") ? 1024
                          : (unit == "M" || unit == "m") ? 1024 * 1024
                                                         : 0;
    const double tokens = number * factor;
    if (factor > 0 && tokens < 1e12 && tokens == std::floor(tokens)) {
      return static_cast<uint64_t>(tokens);
    }
  }
  throw Error(ErrorCode::kUsage, fmt::format("not a number of tokens: '{}'", text),
              "write 512, 2K or 128K (K = 1,024)");
}

std::string FormatTokens(uint64_t tokens) {
  if (tokens >= 1024 && tokens % 1024 == 0) return fmt::format("{}K", tokens / 1024);
  return fmt::format("{}", tokens);
}

}  // namespace kvant
