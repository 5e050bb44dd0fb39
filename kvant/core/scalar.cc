#include "kvant/core/scalar.h"

#include <bit>
#include <cmath>

namespace kvant {

uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x0040U);
  const uint32_t rounding = 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<uint16_t>((bits + rounding) >> 16);
}

float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

namespace {

// A small binary float: sign, exponent_bits, mantissa_bits.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  double largest;  // largest finite value
};

constexpr SmallFloat kFp16 = {5, 10, 15, 65504.0};
constexpr SmallFloat kE4m3 = {4, 3, 7, 448.0};
constexpr SmallFloat kE5m2 = {5, 2, 15, 57344.0};

// Magnitude bits of the nearest representable value of |value| (finite), before overflow handling.
uint32_t RoundMagnitude(double magnitude, const SmallFloat& type) {
  if (magnitude == 0) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const int unbiased = exponent - 1;
  const int smallest_normal = 1 - type.bias;
  const int scale = (unbiased < smallest_normal ? smallest_normal : unbiased) - type.mantissa_bits;
  // nearbyint rounds ties to even in the default rounding mode; the scaled value is exact.
  const double steps = std::nearbyint(std::ldexp(magnitude, -scale));
  const auto mantissa = static_cast<uint32_t>(steps);
  const uint32_t one = 1U << type.mantissa_bits;
  if (unbiased < smallest_normal) return mantissa;  // a carry lands on the smallest normal
  const auto biased = static_cast<uint32_t>(unbiased + type.bias);
  return (biased << type.mantissa_bits) + (mantissa - one);  // a carry bumps the exponent
}

double MagnitudeValue(uint32_t bits, const SmallFloat& type) {
  const uint32_t one = 1U << type.mantissa_bits;
  const uint32_t exponent = bits >> type.mantissa_bits;
  const uint32_t mantissa = bits & (one - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - type.bias - type.mantissa_bits);
  return std::ldexp(one + mantissa, static_cast<int>(exponent) - type.bias - type.mantissa_bits);
}

}  // namespace

uint16_t Fp16FromFloat(float value) {
  const uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00U);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7C00U);
  const uint32_t magnitude = RoundMagnitude(std::fabs(value), kFp16);
  return static_cast<uint16_t>(sign | (magnitude > 0x7C00U ? 0x7C00U : magnitude));
}

float FloatFromFp16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7FFFU;
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if (magnitude > 0x7C00U) return std::bit_cast<float>(0x7FC00000U | ((bits & 0x8000U) << 16));
  if (magnitude == 0x7C00U) return sign * INFINITY;
  return sign * static_cast<float>(MagnitudeValue(magnitude, kFp16));
}

uint8_t Fp8E4m3FromFloat(float value) {
  const uint32_t sign = std::signbit(value) ? 0x80U : 0U;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7FU);
  if (std::fabs(value) >= kFp8E4m3Max) return static_cast<uint8_t>(sign | 0x7EU);
  const uint32_t magnitude = RoundMagnitude(std::fabs(value), kE4m3);
  return static_cast<uint8_t>(sign | (magnitude > 0x7EU ? 0x7EU : magnitude));
}

float FloatFromFp8E4m3(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(0x7FC00000U | ((bits & 0x80U) << 24));
  const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
  return sign * static_cast<float>(MagnitudeValue(magnitude, kE4m3));
}

uint8_t Fp8E5m2FromFloat(float value) {
  const uint32_t sign = std::signbit(value) ? 0x80U : 0U;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7EU);
  if (std::fabs(value) >= kFp8E5m2Max) return static_cast<uint8_t>(sign | 0x7BU);
  const uint32_t magnitude = RoundMagnitude(std::fabs(value), kE5m2);
  return static_cast<uint8_t>(sign | (magnitude > 0x7BU ? 0x7BU : magnitude));
}

float FloatFromFp8E5m2(uint8_t bits) {
  const uint32_t magnitude = bits & 0x7FU;
  const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
  if (magnitude > 0x7CU) return std::bit_cast<float>(0x7FC00000U | ((bits & 0x80U) << 24));
  if (magnitude == 0x7CU) return sign * INFINITY;
  return sign * static_cast<float>(MagnitudeValue(magnitude, kE5m2));
}

}  // namespace kvant
