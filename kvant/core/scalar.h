// 16- and 8-bit floating-point scalars, as bits in integers. Every conversion from float rounds to
// nearest, ties to even.
#pragma once

#include <cstdint>

namespace kvant {

// bfloat16: the upper half of a float. NaN stays NaN (quiet).
uint16_t Bf16FromFloat(float value);
float FloatFromBf16(uint16_t bits);

// IEEE half. Values beyond 65,504 become infinity, as IEEE says.
uint16_t Fp16FromFloat(float value);
float FloatFromFp16(uint16_t bits);

// OCP FP8 E4M3 (e4m3fn: no infinity, largest 448, NaN = 0x7F and 0xFF) and E5M2 (largest finite
// 57,344). Finite values beyond the largest, and infinities, saturate to it; NaN stays NaN.
// Source: OCP 8-bit Floating Point Specification (OFP8) 1.0.
inline constexpr float kFp8E4m3Max = 448.0F;
inline constexpr float kFp8E5m2Max = 57344.0F;
uint8_t Fp8E4m3FromFloat(float value);
float FloatFromFp8E4m3(uint8_t bits);
uint8_t Fp8E5m2FromFloat(float value);
float FloatFromFp8E5m2(uint8_t bits);

}  // namespace kvant
