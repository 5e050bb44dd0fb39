// The packed weight types, decoded vector by vector in registers.
//
// WeightBlock<type>::Decode(block, sink) calls sink(index, w) for every vector of a block's
// weights: w holds the weights from index * kLanes on.
// Both users share it: dequantize.cc stores the vectors, gemv.cc multiplies them at once.
//
// Exactness: the types with a minimum have codes of at most 5 bits and scales of at most 17
// significant bits (an fp16 times a 6-bit factor), so scale * code fits float32's 24 bits, and a
// fused and a separate multiply-add give the same bits. The other types only multiply. Hence all
// instruction sets agree with dequantize_reference.cc.
#if defined(KVANT_KERNEL_DEQUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_DEQUANTIZE_INL_H_
#undef KVANT_KERNEL_DEQUANTIZE_INL_H_
#else
#define KVANT_KERNEL_DEQUANTIZE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/highway.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/weight_type.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that one vector never spans two scales: the smallest group is 16 (Q6_K).
using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;
using IntTag = hn::Rebind<int32_t, FloatTag>;
using IntVec = hn::Vec<IntTag>;
constexpr size_t kLanes = hn::MaxLanes(FloatTag());

// Calls body(std::integral_constant<size_t, i>) for i in [0, kCount), unrolled.
template <typename Body, size_t... kIndices>
HWY_INLINE void UnrollOver(const Body& body, std::index_sequence<kIndices...>) {
  (body(std::integral_constant<size_t, kIndices>()), ...);
}
template <size_t kCount, typename Body>
HWY_INLINE void Unroll(const Body& body) {
  UnrollOver(body, std::make_index_sequence<kCount>());
}

// Calls body(i) for the vectors of kWeights weights: unrolled, so that what a sink does with i is
// decided by the compiler, but a plain loop where short vectors make many of them.
template <size_t kWeights, typename Body>
HWY_INLINE void ForVectors(const Body& body) {
  if constexpr (kLanes >= 8) {
    Unroll<kWeights / kLanes>(body);
  } else {
    for (size_t i = 0; i < kWeights / kLanes; ++i) body(i);
  }
}

// Two neighbouring fp16 values, widened.
struct HalfPair {
  float first;
  float second;
};

HWY_INLINE HalfPair LoadHalfPair(const uint8_t* bytes) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // One conversion instruction for both. Reads 8 bytes: every block is longer.
  const hn::Full128<float> d;
  const auto pair = hn::PromoteTo(
      d, hn::LoadU(hn::Full64<hwy::float16_t>(), reinterpret_cast<const hwy::float16_t*>(bytes)));
  return {hn::GetLane(pair), hn::GetLane(hn::Shuffle2301(pair))};
#else
  uint16_t bits[2];
  std::memcpy(bits, bytes, sizeof(bits));
  return {FloatFromFp16(bits[0]), FloatFromFp16(bits[1])};
#endif
}

HWY_INLINE IntVec LoadUnsigned(const uint8_t* bytes) {
  return hn::PromoteTo(IntTag(), hn::LoadU(hn::Rebind<uint8_t, FloatTag>(), bytes));
}

HWY_INLINE FloatVec ToFloat(IntVec codes) { return hn::ConvertTo(FloatTag(), codes); }

HWY_INLINE IntVec LowNibble(IntVec bytes) { return hn::And(bytes, hn::Set(IntTag(), 15)); }
HWY_INLINE IntVec HighNibble(IntVec bytes) { return hn::ShiftRight<4>(bytes); }

// 16 in every lane whose bit of `bits` is set: lane i looks at bit vector * kLanes + i.
HWY_INLINE IntVec FifthBits(IntVec bits, size_t vector) {
  alignas(64) static constexpr int32_t kBit[32] = {
      1 << 0,  1 << 1,  1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
      1 << 8,  1 << 9,  1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15,
      1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23,
      1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30, INT32_MIN};
  const IntVec mask = hn::LoadU(IntTag(), kBit + vector * kLanes);
  return hn::IfThenElseZero(hn::TestBit(bits, mask), hn::Set(IntTag(), 16));
}

template <WeightType kType>
struct WeightBlock;

// The unpacked types are given blocks of 32, so that all types sum in groups of 32.
template <>
struct WeightBlock<WeightType::kF32> {
  static constexpr WeightType kType = WeightType::kF32;
  static constexpr bool kUnpacked = true;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 128;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    ForVectors<32>([&](auto v) HWY_ATTR {
      sink(v, hn::LoadU(FloatTag(), reinterpret_cast<const float*>(block) + v * kLanes));
    });
  }
};

template <>
struct WeightBlock<WeightType::kF16> {
  static constexpr WeightType kType = WeightType::kF16;
  static constexpr bool kUnpacked = true;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 64;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    ForVectors<32>([&](auto v) HWY_ATTR {
      const hn::Rebind<hwy::float16_t, FloatTag> d16;
      const auto* halves = reinterpret_cast<const hwy::float16_t*>(block) + v * kLanes;
      sink(v, hn::PromoteTo(FloatTag(), hn::LoadU(d16, halves)));
    });
#else
    alignas(64) float values[32];
    for (size_t i = 0; i < 32; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, block + 2 * i, sizeof(bits));
      values[i] = FloatFromFp16(bits);
    }
    ForVectors<32>([&](auto v) HWY_ATTR { sink(v, hn::Load(FloatTag(), values + v * kLanes)); });
#endif
  }
};

template <>
struct WeightBlock<WeightType::kBF16> {
  static constexpr WeightType kType = WeightType::kBF16;
  static constexpr bool kUnpacked = true;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 64;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    ForVectors<32>([&](auto v) HWY_ATTR {
      const hn::Rebind<uint16_t, FloatTag> d16;
      const hn::Rebind<uint32_t, FloatTag> d32;
      const auto* upper = reinterpret_cast<const uint16_t*>(block) + v * kLanes;
      const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, upper)));
      sink(v, hn::BitCast(FloatTag(), bits));
    });
  }
};

// fp16 scale, 32 int8.
template <>
struct WeightBlock<WeightType::kQ8_0> {
  static constexpr WeightType kType = WeightType::kQ8_0;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 34;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const FloatVec scale = hn::Set(FloatTag(), LoadHalfPair(block).first);
    ForVectors<32>([&](auto v) HWY_ATTR {
      const hn::Rebind<int8_t, FloatTag> d8;
      const auto* codes = reinterpret_cast<const int8_t*>(block + 2) + v * kLanes;
      sink(v, hn::Mul(ToFloat(hn::PromoteTo(IntTag(), hn::LoadU(d8, codes))), scale));
    });
  }
};

// fp16 scale, 16 bytes: low nibbles are weights 0–15, high nibbles 16–31, both biased by 8.
template <>
struct WeightBlock<WeightType::kQ4_0> {
  static constexpr WeightType kType = WeightType::kQ4_0;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 18;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const FloatVec scale = hn::Set(FloatTag(), LoadHalfPair(block).first);
    const IntVec bias = hn::Set(IntTag(), 8);
    ForVectors<16>([&](auto v) HWY_ATTR {
      const IntVec bytes = LoadUnsigned(block + 2 + v * kLanes);
      sink(v, hn::Mul(ToFloat(hn::Sub(LowNibble(bytes), bias)), scale));
      sink(16 / kLanes + v, hn::Mul(ToFloat(hn::Sub(HighNibble(bytes), bias)), scale));
    });
  }
};

// fp16 scale and minimum, nibbles as in Q4_0 without the bias.
template <>
struct WeightBlock<WeightType::kQ4_1> {
  static constexpr WeightType kType = WeightType::kQ4_1;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 20;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const HalfPair halves = LoadHalfPair(block);
    const FloatVec scale = hn::Set(FloatTag(), halves.first);
    const FloatVec minimum = hn::Set(FloatTag(), halves.second);
    ForVectors<16>([&](auto v) HWY_ATTR {
      const IntVec bytes = LoadUnsigned(block + 4 + v * kLanes);
      sink(v, hn::MulAdd(ToFloat(LowNibble(bytes)), scale, minimum));
      sink(16 / kLanes + v, hn::MulAdd(ToFloat(HighNibble(bytes)), scale, minimum));
    });
  }
};

// The codes of Q5_0 and Q5_1: nibbles as in Q4_0, fifth bits in a 32-bit word, bit i for weight i.
template <typename Sink>
HWY_INLINE void DecodeFiveBits(const uint8_t* high, const uint8_t* low, const Sink& sink) {
  int32_t word = 0;
  std::memcpy(&word, high, sizeof(word));
  const IntVec bits = hn::Set(IntTag(), word);
  ForVectors<16>([&](auto v) HWY_ATTR {
    const IntVec bytes = LoadUnsigned(low + v * kLanes);
    sink(v, hn::Or(LowNibble(bytes), FifthBits(bits, v)));
    sink(16 / kLanes + v, hn::Or(HighNibble(bytes), FifthBits(bits, 16 / kLanes + v)));
  });
}

// fp16 scale, fifth bits, nibbles; biased by 16.
template <>
struct WeightBlock<WeightType::kQ5_0> {
  static constexpr WeightType kType = WeightType::kQ5_0;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 22;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const FloatVec scale = hn::Set(FloatTag(), LoadHalfPair(block).first);
    const IntVec bias = hn::Set(IntTag(), 16);
    DecodeFiveBits(block + 2, block + 6, [&](auto index, IntVec codes) HWY_ATTR {
      sink(index, hn::Mul(ToFloat(hn::Sub(codes, bias)), scale));
    });
  }
};

// fp16 scale and minimum, fifth bits, nibbles.
template <>
struct WeightBlock<WeightType::kQ5_1> {
  static constexpr WeightType kType = WeightType::kQ5_1;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 32;
  static constexpr size_t kBytes = 24;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const HalfPair halves = LoadHalfPair(block);
    const FloatVec scale = hn::Set(FloatTag(), halves.first);
    const FloatVec minimum = hn::Set(FloatTag(), halves.second);
    DecodeFiveBits(block + 4, block + 8, [&](auto index, IntVec codes) HWY_ATTR {
      sink(index, hn::MulAdd(ToFloat(codes), scale, minimum));
    });
  }
};

// Scales and negated minima of the eight groups of 32 in Q4_K and Q5_K.
struct GroupScales {
  alignas(32) float scale[8];
  alignas(32) float minimum[8];
};

// 12 bytes hold eight 6-bit factors of each: bytes 0–3 and 4–7 have factors 0–3 of scale and
// minimum in their low six bits; byte 8 + i has the low nibbles of factors 4 + i (scale low,
// minimum high), whose upper two bits are the top of bytes i and 4 + i. Here four at a time.
HWY_INLINE GroupScales LoadGroupScales(const uint8_t* block) {
  const HalfPair halves = LoadHalfPair(block);
  uint32_t words[3];
  std::memcpy(words, block + 4, sizeof(words));
  constexpr uint32_t kSix = 0x3F3F3F3F;
  constexpr uint32_t kNibble = 0x0F0F0F0F;
  constexpr uint32_t kTop = 0x30303030;
  const uint32_t packed[4] = {words[0] & kSix, (words[2] & kNibble) | ((words[0] >> 2) & kTop),
                              words[1] & kSix,
                              ((words[2] >> 4) & kNibble) | ((words[1] >> 2) & kTop)};
  uint8_t factors[16];
  std::memcpy(factors, packed, sizeof(factors));
  const hn::CappedTag<float, 8> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  GroupScales groups;
  for (size_t i = 0; i < 8; i += hn::MaxLanes(d)) {
    const auto scales = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, factors + i)));
    const auto minima = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, factors + 8 + i)));
    hn::Store(hn::Mul(scales, hn::Set(d, halves.first)), d, groups.scale + i);
    hn::Store(hn::Mul(minima, hn::Set(d, -halves.second)), d, groups.minimum + i);
  }
  return groups;
}

// fp16 scale and minimum of the block, 12 bytes of group factors, 128 bytes: byte 32p + i holds
// weights 64p + i (low nibble) and 64p + 32 + i (high nibble).
template <>
struct WeightBlock<WeightType::kQ4_K> {
  static constexpr WeightType kType = WeightType::kQ4_K;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 256;
  static constexpr size_t kBytes = 144;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const GroupScales groups = LoadGroupScales(block);
    Unroll<4>([&](auto p) HWY_ATTR {
      const FloatTag d;
      const FloatVec scale0 = hn::Set(d, groups.scale[2 * p]);
      const FloatVec scale1 = hn::Set(d, groups.scale[2 * p + 1]);
      const FloatVec minimum0 = hn::Set(d, groups.minimum[2 * p]);
      const FloatVec minimum1 = hn::Set(d, groups.minimum[2 * p + 1]);
      ForVectors<32>([&](auto v) HWY_ATTR {
        const IntVec bytes = LoadUnsigned(block + 16 + 32 * p + v * kLanes);
        sink((64 * p) / kLanes + v, hn::MulAdd(ToFloat(LowNibble(bytes)), scale0, minimum0));
        sink((64 * p + 32) / kLanes + v, hn::MulAdd(ToFloat(HighNibble(bytes)), scale1, minimum1));
      });
    });
  }
};

// As Q4_K, with fifth bits in 32 bytes after the group factors: bit 2p of byte i belongs to weight
// 64p + i, bit 2p + 1 to weight 64p + 32 + i.
template <>
struct WeightBlock<WeightType::kQ5_K> {
  static constexpr WeightType kType = WeightType::kQ5_K;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 256;
  static constexpr size_t kBytes = 176;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    const GroupScales groups = LoadGroupScales(block);
    Unroll<4>([&](auto p) HWY_ATTR {
      const FloatTag d;
      const IntTag di;
      const FloatVec scale0 = hn::Set(d, groups.scale[2 * p]);
      const FloatVec scale1 = hn::Set(d, groups.scale[2 * p + 1]);
      const FloatVec minimum0 = hn::Set(d, groups.minimum[2 * p]);
      const FloatVec minimum1 = hn::Set(d, groups.minimum[2 * p + 1]);
      const IntVec sixteen = hn::Set(di, 16);
      ForVectors<32>([&](auto v) HWY_ATTR {
        const IntVec bytes = LoadUnsigned(block + 48 + 32 * p + v * kLanes);
        const IntVec high = LoadUnsigned(block + 16 + v * kLanes);
        const IntVec fifth0 = hn::And(hn::ShiftRight<2 * p>(hn::ShiftLeft<4>(high)), sixteen);
        const IntVec fifth1 = hn::And(hn::ShiftRight<2 * p + 1>(hn::ShiftLeft<4>(high)), sixteen);
        sink((64 * p) / kLanes + v,
             hn::MulAdd(ToFloat(hn::Or(LowNibble(bytes), fifth0)), scale0, minimum0));
        sink((64 * p + 32) / kLanes + v,
             hn::MulAdd(ToFloat(hn::Or(HighNibble(bytes), fifth1)), scale1, minimum1));
      });
    });
  }
};

// 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 int8 group scales (16 weights each),
// the fp16 scale. In each half of 128 weights: low byte i holds weights i and 64 + i, low byte
// 32 + i weights 32 + i and 96 + i; upper byte i holds the bit pairs of weights i, 32 + i, 64 + i
// and 96 + i. Codes are biased by 32.
template <>
struct WeightBlock<WeightType::kQ6_K> {
  static constexpr WeightType kType = WeightType::kQ6_K;
  static constexpr bool kUnpacked = false;
  static constexpr size_t kElements = 256;
  static constexpr size_t kBytes = 210;
  template <typename Sink>
  static HWY_INLINE void Decode(const uint8_t* block, const Sink& sink) {
    alignas(64) float scales[16];
    LoadScales(block, scales);
    const IntVec pair = hn::Set(IntTag(), 0x30);
    Unroll<2>([&](auto half) HWY_ATTR {
      ForVectors<32>([&](auto v) HWY_ATTR {
        constexpr size_t kFirst = 128 * half;
        const IntVec low0 = LoadUnsigned(block + 64 * half + v * kLanes);
        const IntVec low1 = LoadUnsigned(block + 64 * half + 32 + v * kLanes);
        const IntVec high = LoadUnsigned(block + 128 + 32 * half + v * kLanes);
        const float* scale = scales + 8 * half + v * kLanes / 16;
        const auto emit = [&](auto index, IntVec low, IntVec upper, float group_scale) HWY_ATTR {
          const IntVec codes = hn::Sub(hn::Or(low, hn::And(upper, pair)), hn::Set(IntTag(), 32));
          sink(index, hn::Mul(ToFloat(codes), hn::Set(FloatTag(), group_scale)));
        };
        emit(kFirst / kLanes + v, LowNibble(low0), hn::ShiftLeft<4>(high), scale[0]);
        emit((kFirst + 32) / kLanes + v, LowNibble(low1), hn::ShiftLeft<2>(high), scale[2]);
        emit((kFirst + 64) / kLanes + v, HighNibble(low0), high, scale[4]);
        emit((kFirst + 96) / kLanes + v, HighNibble(low1), hn::ShiftRight<2>(high), scale[6]);
      });
    });
  }

 private:
  static HWY_INLINE void LoadScales(const uint8_t* block, float* scales) {
    uint16_t bits = 0;
    std::memcpy(&bits, block + 208, sizeof(bits));
    const FloatVec scale = hn::Set(FloatTag(), FloatFromFp16(bits));
    for (size_t i = 0; i < 16; i += kLanes) {
      const hn::Rebind<int8_t, FloatTag> d8;
      const auto* factors = reinterpret_cast<const int8_t*>(block + 192 + i);
      const FloatVec factor = ToFloat(hn::PromoteTo(IntTag(), hn::LoadU(d8, factors)));
      hn::Store(hn::Mul(factor, scale), FloatTag(), scales + i);
    }
  }
};

// Calls body(WeightBlock<type>()).
template <typename Body>
HWY_INLINE void WithWeightBlock(WeightType type, const Body& body) {
  switch (type) {
    case WeightType::kF32:
      return body(WeightBlock<WeightType::kF32>());
    case WeightType::kF16:
      return body(WeightBlock<WeightType::kF16>());
    case WeightType::kBF16:
      return body(WeightBlock<WeightType::kBF16>());
    case WeightType::kQ8_0:
      return body(WeightBlock<WeightType::kQ8_0>());
    case WeightType::kQ4_0:
      return body(WeightBlock<WeightType::kQ4_0>());
    case WeightType::kQ4_1:
      return body(WeightBlock<WeightType::kQ4_1>());
    case WeightType::kQ5_0:
      return body(WeightBlock<WeightType::kQ5_0>());
    case WeightType::kQ5_1:
      return body(WeightBlock<WeightType::kQ5_1>());
    case WeightType::kQ4_K:
      return body(WeightBlock<WeightType::kQ4_K>());
    case WeightType::kQ5_K:
      return body(WeightBlock<WeightType::kQ5_K>());
    case WeightType::kQ6_K:
      return body(WeightBlock<WeightType::kQ6_K>());
  }
}

template <typename Block>
HWY_INLINE void DecodeBlockToMemory(const uint8_t* block, float* out) {
  Block::Decode(
      block, [out](size_t i, FloatVec w) HWY_ATTR { hn::StoreU(w, FloatTag(), out + i * kLanes); });
}

// Decodes `elements` weights to `out`, rounded up to the next 32 with zeros: only the unpacked
// types, whose block is one element, can end between.
template <typename Block>
HWY_INLINE void DecodeToMemory(const uint8_t* bytes, size_t elements, float* out) {
  size_t done = 0;
  for (; done + Block::kElements <= elements; done += Block::kElements) {
    DecodeBlockToMemory<Block>(bytes, out + done);
    bytes += Block::kBytes;
  }
  if constexpr (Block::kUnpacked) {
    if (done == elements) return;
    uint8_t padded[Block::kBytes] = {};
    std::memcpy(padded, bytes, (elements - done) * Block::kBytes / Block::kElements);
    DecodeBlockToMemory<Block>(padded, out + done);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
