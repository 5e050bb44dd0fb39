// The reference codecs: slow, obvious, float64; one function per formula. They define what every
// kernel must compute and say nothing of where bytes lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/format/kv_format.h"

namespace kvant {

// Values met while quantizing that a format cannot hold as they are.
struct QuantizeCounts {
  uint64_t values = 0;
  // Finite, beyond the format's range at a unit or static scale; at a dynamic scale, more than a
  // step beyond it: the scale or offset overflows fp16, or vLLM's packed zero point ends at 0
  // or 15.
  uint64_t saturated = 0;
  uint64_t clipped = 0;     // outside the kept range of `clip`
  uint64_t non_finite = 0;  // NaN (stored as 0), infinite or beyond kLargestUsable
};

// Beyond this a number is taken for an overflow, like infinity: it is stored as
// ±kOverflowReplacement, which every format can hold and scores can be computed with.
inline constexpr float kLargestUsable = 1e30F;
inline constexpr float kOverflowReplacement = 65504.0F;

// One stream of one KV head over `tokens` tokens: codes, and the scale and offset that each code
// is read with.
struct QuantizedMatrix {
  uint32_t tokens = 0;
  uint32_t head_dim = 0;
  // Row-major [tokens, head_dim]. Integer codecs: the code (unsigned with a zero point or below 8
  // bits, signed int8 otherwise); float codecs: the bit pattern.
  std::vector<int32_t> codes;
  std::vector<double> scale;   // [tokens, head_dim]: after rounding to its storage
  std::vector<double> offset;  // [tokens, head_dim]: 0 for symmetric formats
  std::vector<double> mean;    // [head_dim], kBlockMean only, after rounding to fp16
  QuantizeCounts counts;
};

// Quantizes `values` [tokens, head_dim], already centred by bias if the format asks for it (the
// bias depends on position and is the caller's). Applies, in this order: non-finite values
// replaced, block mean removed, Hadamard, clip, scale, rounding.
// static_scale: scales for this head, size 1 or head_dim; empty unless source is kStatic.
// tokens may be fewer than kBlockTokens for append formats only.
QuantizedMatrix QuantizeReference(const StreamFormat& stream, std::span<const float> values,
                                  uint32_t tokens, uint32_t head_dim,
                                  std::span<const float> static_scale);

// The values a reader of the cache sees, in the original space (Hadamard undone, mean added back;
// a removed bias is the caller's to add). [tokens, head_dim].
std::vector<double> DequantizeReference(const StreamFormat& stream, const QuantizedMatrix& matrix);

}  // namespace kvant
