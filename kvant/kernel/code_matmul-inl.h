// out[r][c] += Σ_k a[r][k] · decode(codes[k][c]): the one inner loop of attention over the cache.
//
// Scores: a = queries [rows, head_dim], codes = K [head_dim][64 tokens].
// Output: a = probabilities [rows, 64], codes = V [64 tokens][head_dim].
// Codes are decoded into registers and used for all rows; nothing is dequantized to memory. Each
// output is one chain of fused multiply-adds over k in order, whatever the number of rows or
// columns done together, so results do not depend on batching.
#if defined(KVANT_KERNEL_CODE_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_CODE_MATMUL_INL_H_
#undef KVANT_KERNEL_CODE_MATMUL_INL_H_
#else
#define KVANT_KERNEL_CODE_MATMUL_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kvant/core/error.h"
#include "kvant/kernel/kv_layout.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that one vector never spans two packed groups.
using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;

// Decoders: `column` is a multiple of the number of lanes.
template <CodeType kType>
struct Decode;

template <>
struct Decode<CodeType::kFp32> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    return hn::LoadU(FloatTag(), reinterpret_cast<const float*>(row) + column);
  }
};

template <>
struct Decode<CodeType::kBf16> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<hwy::bfloat16_t, FloatTag> d16;
    return hn::PromoteTo(FloatTag(),
                         hn::LoadU(d16, reinterpret_cast<const hwy::bfloat16_t*>(row) + column));
  }
};

template <>
struct Decode<CodeType::kFp16> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<hwy::float16_t, FloatTag> d16;
    return hn::PromoteTo(FloatTag(),
                         hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(row) + column));
  }
};

// FP8 through fp16: the exponent and mantissa bits line up after a shift, subnormals included;
// e4m3's smaller bias (7 against 15) is made good by a factor of 2^8.
template <>
struct Decode<CodeType::kFp8E4m3> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<uint8_t, FloatTag> d8;
    const hn::Rebind<uint16_t, FloatTag> d16;
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    const auto codes = hn::PromoteTo(d16, hn::LoadU(d8, row + column));
    const auto sign = hn::ShiftLeft<8>(hn::And(codes, hn::Set(d16, uint16_t{0x80})));
    const auto magnitude = hn::ShiftLeft<7>(hn::And(codes, hn::Set(d16, uint16_t{0x7F})));
    const auto half = hn::BitCast(dh, hn::Or(sign, magnitude));
    return hn::Mul(hn::PromoteTo(FloatTag(), half), hn::Set(FloatTag(), 256.0F));
  }
};

template <>
struct Decode<CodeType::kFp8E5m2> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<uint8_t, FloatTag> d8;
    const hn::Rebind<uint16_t, FloatTag> d16;
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    const auto codes = hn::PromoteTo(d16, hn::LoadU(d8, row + column));
    return hn::PromoteTo(FloatTag(), hn::BitCast(dh, hn::ShiftLeft<8>(codes)));
  }
};

template <>
struct Decode<CodeType::kInt8> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<int8_t, FloatTag> d8;
    const hn::Rebind<int32_t, FloatTag> d32;
    const auto codes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(row) + column);
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(d32, codes));
  }
};

template <>
struct Decode<CodeType::kUInt8> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<uint8_t, FloatTag> d8;
    const hn::Rebind<int32_t, FloatTag> d32;
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(d32, hn::LoadU(d8, row + column)));
  }
};

// 16 columns in 8 bytes: byte b holds columns b (low) and b + 8 (high nibble).
template <>
struct Decode<CodeType::kUInt4> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    const hn::Rebind<int32_t, FloatTag> d32;
#if HWY_MAX_BYTES >= 64
    const hn::CappedTag<uint8_t, 8> d8;
    const hn::CappedTag<uint8_t, 16> d16;
    const auto bytes = hn::LoadU(d8, row + column / 2);
    const auto low = hn::And(bytes, hn::Set(d8, uint8_t{15}));
    const auto high = hn::And(hn::ShiftRight<4>(bytes), hn::Set(d8, uint8_t{15}));
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(d32, hn::Combine(d16, high, low)));
#else
    const hn::Rebind<uint8_t, FloatTag> d8;
    const size_t within = column % 16;
    const auto bytes = hn::LoadU(d8, row + column / 16 * 8 + within % 8);
    const auto wide = hn::PromoteTo(d32, bytes);
    const auto code = within < 8 ? hn::And(wide, hn::Set(d32, 15)) : hn::ShiftRight<4>(wide);
    return hn::ConvertTo(FloatTag(), code);
#endif
  }
};

// 16 columns in 4 bytes: byte b holds columns b, b + 4, b + 8, b + 12. The negative control: its
// speed does not matter.
template <>
struct Decode<CodeType::kUInt2> {
  static HWY_INLINE FloatVec Load(const uint8_t* row, size_t column) {
    HWY_ALIGN float values[16];
    const size_t lanes = hn::Lanes(FloatTag());
    for (size_t i = 0; i < lanes; ++i) {
      const size_t within = (column + i) % 16;
      const uint8_t byte = row[(column + i) / 16 * 4 + within % 4];
      values[i] = static_cast<float>((byte >> (within / 4 * 2)) & 3);
    }
    return hn::Load(FloatTag(), values);
  }
};

struct MatmulShape {
  size_t a_stride;   // floats between rows of a
  size_t depth;      // how many k
  size_t row_bytes;  // bytes between rows of codes
  size_t out_stride;
};

// kRows x kVectors accumulators in registers.
template <CodeType kType, size_t kRows, size_t kVectors>
HWY_INLINE void Tile(const MatmulShape& shape, const float* a, const uint8_t* codes, size_t column,
                     float* out) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sums[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::LoadU(d, out + r * shape.out_stride + column + v * lanes);
    }
  }
  for (size_t k = 0; k < shape.depth; ++k) {
    const uint8_t* row = codes + k * shape.row_bytes;
    FloatVec values[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      values[v] = Decode<kType>::Load(row, column + v * lanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const FloatVec factor = hn::Set(d, a[r * shape.a_stride + k]);
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(factor, values[v], sums[r][v]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, out + r * shape.out_stride + column + v * lanes);
    }
  }
}

// Widest tiles that keep sums, one row of codes and a factor in the registers (16 with AVX2 and
// below, 32 with AVX-512).
#if HWY_MAX_BYTES >= 64
inline constexpr size_t kWideVectors = 4;
inline constexpr size_t kNarrowVectors = 4;
#else
inline constexpr size_t kWideVectors = 4;    // up to 3 rows
inline constexpr size_t kNarrowVectors = 2;  // 4 to 6 rows
#endif

template <CodeType kType, size_t kRows>
void RowGroup(const MatmulShape& shape, const float* a, const uint8_t* codes, size_t columns,
              float* out) {
  const size_t lanes = hn::Lanes(FloatTag());
  constexpr size_t kVectors = kRows <= 3 ? kWideVectors : kNarrowVectors;
  size_t column = 0;
  for (; column + kVectors * lanes <= columns; column += kVectors * lanes) {
    Tile<kType, kRows, kVectors>(shape, a, codes, column, out);
  }
  for (; column + lanes <= columns; column += lanes) {
    Tile<kType, kRows, 1>(shape, a, codes, column, out);
  }
}

// REQUIRES: columns a multiple of 16.
template <CodeType kType>
void CodeMatmulTyped(const MatmulShape& shape, const float* a, size_t rows, const uint8_t* codes,
                     size_t columns, float* out) {
  size_t r = 0;
  for (; r + 6 <= rows; r += 6) {
    RowGroup<kType, 6>(shape, a + r * shape.a_stride, codes, columns, out + r * shape.out_stride);
  }
  const float* rest = a + r * shape.a_stride;
  float* rest_out = out + r * shape.out_stride;
  switch (rows - r) {
    case 1:
      RowGroup<kType, 1>(shape, rest, codes, columns, rest_out);
      break;
    case 2:
      RowGroup<kType, 2>(shape, rest, codes, columns, rest_out);
      break;
    case 3:
      RowGroup<kType, 3>(shape, rest, codes, columns, rest_out);
      break;
    case 4:
      RowGroup<kType, 4>(shape, rest, codes, columns, rest_out);
      break;
    case 5:
      RowGroup<kType, 5>(shape, rest, codes, columns, rest_out);
      break;
    default:
      break;
  }
}

void CodeMatmul(CodeType type, const MatmulShape& shape, const float* a, size_t rows,
                const uint8_t* codes, size_t columns, float* out) {
  switch (type) {
    case CodeType::kFp32:
      return CodeMatmulTyped<CodeType::kFp32>(shape, a, rows, codes, columns, out);
    case CodeType::kBf16:
      return CodeMatmulTyped<CodeType::kBf16>(shape, a, rows, codes, columns, out);
    case CodeType::kFp16:
      return CodeMatmulTyped<CodeType::kFp16>(shape, a, rows, codes, columns, out);
    case CodeType::kFp8E4m3:
      return CodeMatmulTyped<CodeType::kFp8E4m3>(shape, a, rows, codes, columns, out);
    case CodeType::kFp8E5m2:
      return CodeMatmulTyped<CodeType::kFp8E5m2>(shape, a, rows, codes, columns, out);
    case CodeType::kInt8:
      return CodeMatmulTyped<CodeType::kInt8>(shape, a, rows, codes, columns, out);
    case CodeType::kUInt8:
      return CodeMatmulTyped<CodeType::kUInt8>(shape, a, rows, codes, columns, out);
    case CodeType::kUInt4:
      return CodeMatmulTyped<CodeType::kUInt4>(shape, a, rows, codes, columns, out);
    case CodeType::kUInt2:
      return CodeMatmulTyped<CodeType::kUInt2>(shape, a, rows, codes, columns, out);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
