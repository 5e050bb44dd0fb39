// One block of each packed type to float32, written so that the compiler vectorises the loops for
// each of Highway's targets. Products and sums are rounded separately (no fused multiply-add), so
// every target gives the same bits.
#if defined(KVANT_KERNEL_DEQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_DEQUANTIZE_INL_H_
#undef KVANT_KERNEL_DEQUANTIZE_INL_H_
#else
#define KVANT_KERNEL_DEQUANTIZE_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kvant/core/error.h"
#include "kvant/kernel/weight_type.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE uint16_t Load16(const uint8_t* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, 2);
  return bits;
}

// IEEE half to float by integer arithmetic: scales are few, but every block has one.
HWY_INLINE float HalfToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (magnitude << 13));
  // The half's bits as a float are 2^-112 of its value, subnormals included.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

HWY_INLINE void DecodeQ8_0(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block));
  const auto* q = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(q[i]) * d;
}

HWY_INLINE void DecodeQ4_0(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block));
  const uint8_t* q = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((q[i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((q[i] >> 4) - 8) * d;
  }
}

HWY_INLINE void DecodeQ4_1(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block));
  const float m = HalfToFloat(Load16(block + 2));
  const uint8_t* q = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(q[i] & 15) * d + m;
    out[i + 16] = static_cast<float>(q[i] >> 4) * d + m;
  }
}

// The fifth bits of Q5_0 and Q5_1: bit i belongs to value i.
HWY_INLINE void DecodeQ5(const uint8_t* high, const uint8_t* q, float d, float m, int centre,
                         float* out) {
  uint32_t bits = 0;
  std::memcpy(&bits, high, 4);
  for (uint32_t i = 0; i < 16; ++i) {
    const auto low = static_cast<int32_t>((q[i] & 15U) | (((bits >> i) & 1U) << 4));
    const auto top = static_cast<int32_t>((q[i] >> 4) | (((bits >> (i + 16)) & 1U) << 4));
    out[i] = static_cast<float>(low - centre) * d + m;
    out[i + 16] = static_cast<float>(top - centre) * d + m;
  }
}

HWY_INLINE void DecodeQ5_0(const uint8_t* block, float* out) {
  DecodeQ5(block + 2, block + 6, HalfToFloat(Load16(block)), 0.0F, 16, out);
}

HWY_INLINE void DecodeQ5_1(const uint8_t* block, float* out) {
  DecodeQ5(block + 4, block + 8, HalfToFloat(Load16(block)), HalfToFloat(Load16(block + 2)), 0,
           out);
}

// The 6-bit scales and minima of the eight groups of 32 in Q4_K and Q5_K: the first four of each
// in the low 6 bits of bytes 0–7, the rest split between nibbles of bytes 8–11 and the top bits.
HWY_INLINE void GroupScales(const uint8_t* packed, int group, float d, float dmin, float* scale,
                            float* minimum) {
  uint32_t s = 0;
  uint32_t m = 0;
  if (group < 4) {
    s = packed[group] & 63U;
    m = packed[group + 4] & 63U;
  } else {
    s = (packed[group + 4] & 15U) | ((packed[group - 4] >> 6) << 4);
    m = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
  }
  *scale = d * static_cast<float>(s);
  *minimum = dmin * static_cast<float>(m);
}

HWY_INLINE void DecodeQ4_K(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block));
  const float dmin = HalfToFloat(Load16(block + 2));
  const uint8_t* q = block + 16;
  for (int pair = 0; pair < 4; ++pair) {
    float s0 = 0;
    float m0 = 0;
    float s1 = 0;
    float m1 = 0;
    GroupScales(block + 4, 2 * pair, d, dmin, &s0, &m0);
    GroupScales(block + 4, 2 * pair + 1, d, dmin, &s1, &m1);
    for (int i = 0; i < 32; ++i) {
      out[64 * pair + i] = static_cast<float>(q[32 * pair + i] & 15) * s0 - m0;
      out[64 * pair + 32 + i] = static_cast<float>(q[32 * pair + i] >> 4) * s1 - m1;
    }
  }
}

HWY_INLINE void DecodeQ5_K(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block));
  const float dmin = HalfToFloat(Load16(block + 2));
  const uint8_t* high = block + 16;
  const uint8_t* q = block + 48;
  for (int pair = 0; pair < 4; ++pair) {
    float s0 = 0;
    float m0 = 0;
    float s1 = 0;
    float m1 = 0;
    GroupScales(block + 4, 2 * pair, d, dmin, &s0, &m0);
    GroupScales(block + 4, 2 * pair + 1, d, dmin, &s1, &m1);
    for (int i = 0; i < 32; ++i) {
      const int h0 = ((high[i] >> (2 * pair)) & 1) << 4;
      const int h1 = ((high[i] >> (2 * pair + 1)) & 1) << 4;
      out[64 * pair + i] = static_cast<float>((q[32 * pair + i] & 15) + h0) * s0 - m0;
      out[64 * pair + 32 + i] = static_cast<float>((q[32 * pair + i] >> 4) + h1) * s1 - m1;
    }
  }
}

HWY_INLINE void DecodeQ6_K(const uint8_t* block, float* out) {
  const float d = HalfToFloat(Load16(block + 208));
  const auto* scales = reinterpret_cast<const int8_t*>(block + 192);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + 64 * half;
    const uint8_t* high = block + 128 + 32 * half;
    const int8_t* sc = scales + 8 * half;
    float* o = out + 128 * half;
    for (int part = 0; part < 2; ++part) {  // 16 values share a scale
      const float s0 = d * static_cast<float>(sc[part]);
      const float s1 = d * static_cast<float>(sc[2 + part]);
      const float s2 = d * static_cast<float>(sc[4 + part]);
      const float s3 = d * static_cast<float>(sc[6 + part]);
      for (int j = 0; j < 16; ++j) {
        const int i = 16 * part + j;
        o[i] = static_cast<float>(((low[i] & 15) | ((high[i] & 3) << 4)) - 32) * s0;
        o[i + 32] =
            static_cast<float>(((low[i + 32] & 15) | (((high[i] >> 2) & 3) << 4)) - 32) * s1;
        o[i + 64] = static_cast<float>(((low[i] >> 4) | (((high[i] >> 4) & 3) << 4)) - 32) * s2;
        o[i + 96] =
            static_cast<float>(((low[i + 32] >> 4) | (((high[i] >> 6) & 3) << 4)) - 32) * s3;
      }
    }
  }
}

// `elements` weights from a block's start.
HWY_INLINE void DecodeWeights(WeightType type, const uint8_t* row, uint64_t elements, float* out) {
  const auto blocks = [&](auto decode, uint64_t block_elements, uint64_t block_bytes) {
    for (uint64_t done = 0; done < elements; done += block_elements) {
      decode(row, out + done);
      row += block_bytes;
    }
  };
  switch (type) {
    case WeightType::kF32: std::memcpy(out, row, elements * sizeof(float)); return;
    case WeightType::kF16:
      for (uint64_t i = 0; i < elements; ++i) out[i] = HalfToFloat(Load16(row + 2 * i));
      return;
    case WeightType::kBF16:
      for (uint64_t i = 0; i < elements; ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(Load16(row + 2 * i)) << 16);
      }
      return;
    case WeightType::kQ8_0: return blocks(DecodeQ8_0, 32, 34);
    case WeightType::kQ4_0: return blocks(DecodeQ4_0, 32, 18);
    case WeightType::kQ4_1: return blocks(DecodeQ4_1, 32, 20);
    case WeightType::kQ5_0: return blocks(DecodeQ5_0, 32, 22);
    case WeightType::kQ5_1: return blocks(DecodeQ5_1, 32, 24);
    case WeightType::kQ4_K: return blocks(DecodeQ4_K, 256, 144);
    case WeightType::kQ5_K: return blocks(DecodeQ5_K, 256, 176);
    case WeightType::kQ6_K: return blocks(DecodeQ6_K, 256, 210);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
