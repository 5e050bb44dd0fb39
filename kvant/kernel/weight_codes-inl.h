// The packed weight types as integers: weight = scale * code - minimum, by groups.
//
// A tile is 256 weights of a row (fewer at its end), in eight groups of 32. WeightCodes<type> has
//   kScales      scales of a group: 2 for Q6_K, whose groups are of 16 weights, else 1
//   kHasMinimum  whether `minimum` is used; it includes the bias of types with unsigned codes
//   LoadScales(tile, groups, scales)
//   ForGroups(tile, groups, sink): sink(group, first, second) with the codes of its weights 0–15
//     and 16–31, group being a std::integral_constant.
// For targets with vectors of at least 32 bytes. The layouts are described in dequantize-inl.h.
#if defined(KVANT_KERNEL_WEIGHT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_WEIGHT_CODES_INL_H_
#undef KVANT_KERNEL_WEIGHT_CODES_INL_H_
#else
#define KVANT_KERNEL_WEIGHT_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kvant/kernel/dequantize-inl.h"
#include "kvant/kernel/weight_type.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

constexpr size_t kTileGroups = 8;
constexpr size_t kTileWeights = 32 * kTileGroups;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// 16 codes, 8 sums of pairs, 8 scales. Half of the widest vector, for groups are short, and
// Intel's CPUs run three vectors of 32 bytes in the time of two of 64.
using CodeTag = hn::CappedTag<int16_t, 16>;
using CodeVec = hn::Vec<CodeTag>;
using SumTag = hn::CappedTag<int32_t, 8>;
using ScaleTag = hn::CappedTag<float, 8>;
using ScaleVec = hn::Vec<ScaleTag>;

struct TileScales {
  // scale[g], or scale[2g] and scale[2g + 1] where there are two.
  alignas(32) float scale[2 * kTileGroups];
  // What is subtracted from every weight of a group.
  alignas(32) float minimum[kTileGroups];
};

HWY_INLINE CodeVec LoadUnsignedCodes(const uint8_t* bytes) {
  return hn::PromoteTo(CodeTag(), hn::LoadU(hn::Rebind<uint8_t, CodeTag>(), bytes));
}

HWY_INLINE CodeVec LowNibbles(CodeVec bytes) { return hn::And(bytes, hn::Set(CodeTag(), 15)); }
HWY_INLINE CodeVec HighNibbles(CodeVec bytes) { return hn::ShiftRight<4>(bytes); }

// 16 where the bit is set.
HWY_INLINE CodeVec FifthBitsOf(const uint8_t* bits) {
  return hn::IfThenElseZero(hn::LoadMaskBits(CodeTag(), bits), hn::Set(CodeTag(), 16));
}

// body(group) for the groups of a tile. The chains of additions that a group goes to must be known
// to the compiler, so the groups are unrolled also where the tile may end early.
template <typename Body>
HWY_INLINE void UnrollGroups(size_t groups, const Body& body) {
  if (groups == kTileGroups) {
    Unroll<kTileGroups>(body);
    return;
  }
  Unroll<kTileGroups>([&](auto group) HWY_ATTR {
    if (group < groups) body(group);
  });
}

// An fp16 at `offset` of every block of kBytes, one per group, widened.
template <size_t kBytes>
HWY_INLINE ScaleVec LoadHalves(const uint8_t* tile, size_t groups, size_t offset) {
  alignas(16) uint16_t halves[kTileGroups] = {};
  UnrollGroups(groups, [&](auto group) HWY_ATTR {
    std::memcpy(&halves[group], tile + group * kBytes + offset, sizeof(uint16_t));
  });
  const hn::Rebind<hwy::float16_t, ScaleTag> d16;
  return hn::PromoteTo(ScaleTag(), hn::Load(d16, reinterpret_cast<hwy::float16_t*>(halves)));
}

// Types of 32 weights per block with an fp16 scale, and unsigned codes biased by kBias.
template <size_t kBytes, int kBias>
HWY_INLINE void LoadBiasedScales(const uint8_t* tile, size_t groups, TileScales* scales) {
  const ScaleTag d;
  const ScaleVec scale = LoadHalves<kBytes>(tile, groups, 0);
  hn::Store(scale, d, scales->scale);
  if constexpr (kBias != 0) {
    hn::Store(hn::Mul(scale, hn::Set(d, static_cast<float>(kBias))), d, scales->minimum);
  }
}

// Types of 32 weights per block with an fp16 scale and an fp16 minimum, which is added.
template <size_t kBytes>
HWY_INLINE void LoadScalesAndMinima(const uint8_t* tile, size_t groups, TileScales* scales) {
  const ScaleTag d;
  hn::Store(LoadHalves<kBytes>(tile, groups, 0), d, scales->scale);
  hn::Store(hn::Neg(LoadHalves<kBytes>(tile, groups, 2)), d, scales->minimum);
}

// Nibbles at `low` of every block: byte i holds weights i (low) and 16 + i (high); with fifth bits
// in a word at `high` where kFive.
template <size_t kBytes, bool kFive, typename Sink>
HWY_INLINE void ForNibbleGroups(const uint8_t* tile, size_t groups, size_t high, size_t low,
                                const Sink& sink) {
  UnrollGroups(groups, [&](auto group) HWY_ATTR {
    const uint8_t* block = tile + group * kBytes;
    const CodeVec bytes = LoadUnsignedCodes(block + low);
    CodeVec first = LowNibbles(bytes);
    CodeVec second = HighNibbles(bytes);
    if constexpr (kFive) {
      first = hn::Or(first, FifthBitsOf(block + high));
      second = hn::Or(second, FifthBitsOf(block + high + 2));
    }
    sink(group, first, second);
  });
}

template <WeightType kType>
struct WeightCodes;

template <>
struct WeightCodes<WeightType::kQ8_0> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = false;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t groups, TileScales* scales) {
    LoadBiasedScales<34, 0>(tile, groups, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t groups, const Sink& sink) {
    UnrollGroups(groups, [&](auto group) HWY_ATTR {
      const hn::Rebind<int8_t, CodeTag> d8;
      const auto* codes = reinterpret_cast<const int8_t*>(tile + group * 34 + 2);
      sink(group, hn::PromoteTo(CodeTag(), hn::LoadU(d8, codes)),
           hn::PromoteTo(CodeTag(), hn::LoadU(d8, codes + 16)));
    });
  }
};

template <>
struct WeightCodes<WeightType::kQ4_0> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t groups, TileScales* scales) {
    LoadBiasedScales<18, 8>(tile, groups, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t groups, const Sink& sink) {
    ForNibbleGroups<18, false>(tile, groups, 0, 2, sink);
  }
};

template <>
struct WeightCodes<WeightType::kQ4_1> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t groups, TileScales* scales) {
    LoadScalesAndMinima<20>(tile, groups, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t groups, const Sink& sink) {
    ForNibbleGroups<20, false>(tile, groups, 0, 4, sink);
  }
};

template <>
struct WeightCodes<WeightType::kQ5_0> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t groups, TileScales* scales) {
    LoadBiasedScales<22, 16>(tile, groups, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t groups, const Sink& sink) {
    ForNibbleGroups<22, true>(tile, groups, 2, 6, sink);
  }
};

template <>
struct WeightCodes<WeightType::kQ5_1> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t groups, TileScales* scales) {
    LoadScalesAndMinima<24>(tile, groups, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t groups, const Sink& sink) {
    ForNibbleGroups<24, true>(tile, groups, 4, 8, sink);
  }
};

// The K types fill a tile with each block, so `groups` is always 8.
HWY_INLINE void LoadKScales(const uint8_t* tile, TileScales* scales) {
  const GroupScales loaded = LoadGroupScales(tile);
  const ScaleTag d;
  hn::Store(hn::Load(d, loaded.scale), d, scales->scale);
  hn::Store(hn::Neg(hn::Load(d, loaded.minimum)), d, scales->minimum);
}

template <>
struct WeightCodes<WeightType::kQ4_K> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t /*groups*/, TileScales* scales) {
    LoadKScales(tile, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t /*groups*/, const Sink& sink) {
    Unroll<4>([&](auto p) HWY_ATTR {
      const CodeVec bytes0 = LoadUnsignedCodes(tile + 16 + 32 * p);
      const CodeVec bytes1 = LoadUnsignedCodes(tile + 32 + 32 * p);
      sink(std::integral_constant<size_t, 2 * p>(), LowNibbles(bytes0), LowNibbles(bytes1));
      sink(std::integral_constant<size_t, 2 * p + 1>(), HighNibbles(bytes0), HighNibbles(bytes1));
    });
  }
};

template <>
struct WeightCodes<WeightType::kQ5_K> {
  static constexpr size_t kScales = 1;
  static constexpr bool kHasMinimum = true;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t /*groups*/, TileScales* scales) {
    LoadKScales(tile, scales);
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t /*groups*/, const Sink& sink) {
    const CodeVec sixteen = hn::Set(CodeTag(), 16);
    // Bit 4 is the fifth bit of group 0 after four shifts to the left; one less for each group.
    const CodeVec high0 = hn::ShiftLeft<4>(LoadUnsignedCodes(tile + 16));
    const CodeVec high1 = hn::ShiftLeft<4>(LoadUnsignedCodes(tile + 32));
    Unroll<4>([&](auto p) HWY_ATTR {
      const CodeVec bytes0 = LoadUnsignedCodes(tile + 48 + 32 * p);
      const CodeVec bytes1 = LoadUnsignedCodes(tile + 64 + 32 * p);
      const auto fifth = [&](CodeVec high, auto group)
                             HWY_ATTR { return hn::And(hn::ShiftRight<group>(high), sixteen); };
      constexpr std::integral_constant<size_t, 2 * p> kEven;
      constexpr std::integral_constant<size_t, 2 * p + 1> kOdd;
      sink(kEven, hn::Or(LowNibbles(bytes0), fifth(high0, kEven)),
           hn::Or(LowNibbles(bytes1), fifth(high1, kEven)));
      sink(kOdd, hn::Or(HighNibbles(bytes0), fifth(high0, kOdd)),
           hn::Or(HighNibbles(bytes1), fifth(high1, kOdd)));
    });
  }
};

template <>
struct WeightCodes<WeightType::kQ6_K> {
  static constexpr size_t kScales = 2;
  static constexpr bool kHasMinimum = false;
  static HWY_INLINE void LoadScales(const uint8_t* tile, size_t /*groups*/, TileScales* scales) {
    const ScaleTag d;
    const ScaleVec scale = hn::Set(d, hn::GetLane(LoadHalves<210>(tile, 1, 208)));
    for (size_t i = 0; i < 16; i += hn::MaxLanes(d)) {
      const hn::Rebind<int8_t, ScaleTag> d8;
      const hn::Rebind<int32_t, ScaleTag> d32;
      const auto* factors = reinterpret_cast<const int8_t*>(tile + 192 + i);
      const auto factor = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, factors)));
      hn::Store(hn::Mul(factor, scale), d, scales->scale + i);
    }
  }
  template <typename Sink>
  static HWY_INLINE void ForGroups(const uint8_t* tile, size_t /*groups*/, const Sink& sink) {
    const CodeVec pair = hn::Set(CodeTag(), 0x30);
    const CodeVec bias = hn::Set(CodeTag(), 32);
    Unroll<2>([&](auto half) HWY_ATTR {
      const uint8_t* low = tile + 64 * half;
      const uint8_t* high = tile + 128 + 32 * half;
      const CodeVec low0 = LoadUnsignedCodes(low);
      const CodeVec low1 = LoadUnsignedCodes(low + 16);
      const CodeVec low2 = LoadUnsignedCodes(low + 32);
      const CodeVec low3 = LoadUnsignedCodes(low + 48);
      const CodeVec high0 = LoadUnsignedCodes(high);
      const CodeVec high1 = LoadUnsignedCodes(high + 16);
      const auto code = [&](CodeVec nibbles, CodeVec upper) HWY_ATTR {
        return hn::Sub(hn::Or(nibbles, hn::And(upper, pair)), bias);
      };
      constexpr size_t kFirst = 4 * half;
      sink(std::integral_constant<size_t, kFirst>(),
           code(LowNibbles(low0), hn::ShiftLeft<4>(high0)),
           code(LowNibbles(low1), hn::ShiftLeft<4>(high1)));
      sink(std::integral_constant<size_t, kFirst + 1>(),
           code(LowNibbles(low2), hn::ShiftLeft<2>(high0)),
           code(LowNibbles(low3), hn::ShiftLeft<2>(high1)));
      sink(std::integral_constant<size_t, kFirst + 2>(), code(HighNibbles(low0), high0),
           code(HighNibbles(low1), high1));
      sink(std::integral_constant<size_t, kFirst + 3>(),
           code(HighNibbles(low2), hn::ShiftRight<2>(high0)),
           code(HighNibbles(low3), hn::ShiftRight<2>(high1)));
    });
  }
};

#endif  // vectors of at least 32 bytes

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
