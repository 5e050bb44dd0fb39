// The loops below are written so that the compiler vectorises them for each of Highway's targets;
// formulas: kvant/format/reference_codec.h.
#include "kvant/kernel/kv_write.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/kv_write.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// Columns [first, first + count) of a block: the tokens that are being written.
struct Columns {
  size_t first;
  size_t count;
  size_t end() const { return first + count; }
};

bool IsUsable(float value) { return std::fabs(value) <= kLargestUsable; }  // false for NaN

float Usable(float value) {
  if (IsUsable(value)) return value;
  return std::isnan(value) ? 0.0F : std::copysign(kOverflowReplacement, value);
}

// Transposes token-major input to channel-major `values` and makes it finite.
void LoadChannelMajor(const float* input, size_t token_stride, size_t head_dim, Columns columns,
                      float* values, QuantizeCounts* counts) {
  uint64_t non_finite = 0;
  for (size_t t = 0; t < columns.count; ++t) {
    const float* token = input + t * token_stride;
    float* out = values + columns.first + t;
    for (size_t d = 0; d < head_dim; ++d) {
      out[d * kBlockTokens] = token[d];
      non_finite += IsUsable(token[d]) ? 0 : 1;
    }
  }
  if (non_finite > 0) [[unlikely]] {
    for (size_t d = 0; d < head_dim; ++d) {
      for (size_t c = columns.first; c < columns.end(); ++c) {
        float& value = values[d * kBlockTokens + c];
        value = Usable(value);
      }
    }
  }
  counts->non_finite += non_finite;
}

void RemoveBias(const LayerCache& cache, uint32_t head, uint64_t block, Columns columns,
                KvWriteScratch* scratch) {
  const size_t head_dim = cache.layout->head_dim;
  scratch->column.resize(head_dim);
  for (size_t c = columns.first; c < columns.end(); ++c) {
    const std::span<const float> bias = cache.k_bias.subspan(head * head_dim, head_dim);
    std::copy(bias.begin(), bias.end(), scratch->column.begin());
    ApplyRope(*cache.rope, block * kBlockTokens + c, scratch->column);
    for (size_t d = 0; d < head_dim; ++d) {
      scratch->values[d * kBlockTokens + c] -= scratch->column[d];
    }
  }
}

// --- 16- and 32-bit codecs ---------------------------------------------------------------------

template <typename T, typename Convert>
void StoreRows(const float* values, size_t head_dim, Columns columns, bool token_major,
               uint8_t* out, Convert convert) {
  const size_t row_stride = token_major ? 1 : kBlockTokens;
  const size_t column_stride = token_major ? head_dim : 1;
  for (size_t d = 0; d < head_dim; ++d) {
    for (size_t c = columns.first; c < columns.end(); ++c) {
      const T bits = convert(values[d * kBlockTokens + c]);
      std::memcpy(out + (d * row_stride + c * column_stride) * sizeof(T), &bits, sizeof(T));
    }
  }
}

constexpr float kLargestFp16 = 65504.0F;

void Store16(Codec codec, const float* values, size_t head_dim, Columns columns, bool token_major,
             uint8_t* out, QuantizeCounts* counts) {
  switch (codec) {
    case Codec::kFp32:
      StoreRows<float>(values, head_dim, columns, token_major, out, [](float x) { return x; });
      return;
    case Codec::kBf16:
      StoreRows<uint16_t>(values, head_dim, columns, token_major, out, [](float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
      });
      return;
    case Codec::kFp16:
      StoreRows<uint16_t>(values, head_dim, columns, token_major, out, [&](float x) {
        counts->saturated += std::fabs(x) > kLargestFp16 ? 1 : 0;
        return Fp16FromFloat(std::clamp(x, -kLargestFp16, kLargestFp16));
      });
      return;
    default:
      KVANT_CHECK(false);
  }
}

// Reads a 16-bit record back as channel-major float32.
void LoadOpen(const StreamLayout& layout, const uint8_t* record, size_t head_dim, bool token_major,
              float* values) {
  const size_t row_stride = token_major ? 1 : kBlockTokens;
  const size_t column_stride = token_major ? head_dim : 1;
  for (size_t d = 0; d < head_dim; ++d) {
    for (size_t c = 0; c < kBlockTokens; ++c) {
      const size_t index = d * row_stride + c * column_stride;
      float value = 0;
      if (layout.code_type == CodeType::kFp32) {
        std::memcpy(&value, record + index * 4, 4);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, record + index * 2, 2);
        value = layout.code_type == CodeType::kFp16 ? FloatFromFp16(bits) : FloatFromBf16(bits);
      }
      values[d * kBlockTokens + c] = value;
    }
  }
}

// --- Quantization ------------------------------------------------------------------------------

// fp16 neighbours: the nearest value that is not above (not below) x, saturating.
float Fp16Down(float x) {
  const float clamped = std::clamp(x, -kLargestFp16, kLargestFp16);
  uint16_t bits = Fp16FromFloat(clamped);
  if (FloatFromFp16(bits) > clamped) {
    if ((bits & 0x7FFFU) == 0) {
      bits = 0x8001U;
    } else {
      bits = static_cast<uint16_t>((bits & 0x8000U) != 0 ? bits + 1 : bits - 1);
    }
  }
  return FloatFromFp16(bits);
}
float Fp16Up(float x) { return -Fp16Down(-x); }

// The affine map of one group of values: code = round((x - offset) / scale) within [low, high].
struct Affine {
  float scale = 1;
  float offset = 0;
  float inverse = 1;
  // kFp32Packed only, in place of the offset: code = round(x / scale + zero), with the scale before
  // the zero point takes its lowest bits.
  float zero = 0;
};

struct CodeRange {
  float low;
  float high;
  float centre;  // added to the stored code so that it is unsigned
};

CodeRange RangeOf(const StreamFormat& format) {
  const auto levels = static_cast<float>((1U << CodecBits(format.codec)) - 1U);
  if (format.zero_point) return {0, levels, 0};
  const float half = (levels + 1) / 2;
  return {-half, half - 1, format.codec == Codec::kInt8 ? 0.0F : half};
}

bool IsInteger(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kInt2;
}

// A scale below the normal numbers, whose inverse may be infinite, counts as zero: all codes are 0.
void SetInverse(Affine* map) {
  const bool normal = std::fabs(map->scale) >= std::numeric_limits<float>::min();
  map->inverse = normal ? 1.0F / map->scale : 0.0F;
}

// Smallest scale of vLLM's dynamic per-token-head formats.
constexpr float kSmallestDynamicScale = 1e-6F;

// The dynamic map of a group whose values span [low, high] (absolute maximum at `extreme`, signed).
Affine DynamicMap(const StreamFormat& format, float low, float high, float extreme) {
  const CodeRange range = RangeOf(format);
  Affine map;
  if (format.zero_point) {
    const float centre = low + (high - low) / 2;
    const float half = (high - low) / 2 * format.clip;
    const float kept_low = format.clip < 1 ? centre - half : low;
    const float kept_high = format.clip < 1 ? centre + half : high;
    if (format.scale_storage == ScaleStorage::kFp32Packed) {
      map.scale = std::max((kept_high - kept_low) / range.high, kSmallestDynamicScale);
      map.zero = std::clamp(std::round(-kept_low / map.scale), 0.0F, range.high);
    } else if (format.scale_storage == ScaleStorage::kFp32) {
      map.offset = kept_low;
      map.scale = (kept_high - kept_low) / range.high;
    } else {
      map.offset = Fp16Down(kept_low);
      map.scale = Fp16Up((kept_high - map.offset) / range.high);
    }
  } else {
    const float largest = std::fabs(extreme) * format.clip;
    if (format.granularity == Granularity::kGroup && format.codec == Codec::kInt4) {
      map.scale = extreme * format.clip / -8.0F;
      if (format.scale_storage == ScaleStorage::kFp16) {
        map.scale =
            FloatFromFp16(Fp16FromFloat(std::clamp(map.scale, -kLargestFp16, kLargestFp16)));
      }
    } else {
      const float top = format.codec == Codec::kFp8E4m3   ? kFp8E4m3Max
                        : format.codec == Codec::kFp8E5m2 ? kFp8E5m2Max
                                                          : range.high;
      map.scale = format.scale_storage == ScaleStorage::kFp16
                      ? Fp16Up(largest / top)
                      : std::max(largest / top, kSmallestDynamicScale);
    }
  }
  SetInverse(&map);
  return map;
}

// Round half away from zero.
inline float RoundAway(float x) { return std::trunc(x + std::copysign(0.5F, x)); }

// FP8 codes by integer arithmetic: the float's bits rounded at the format's mantissa, subnormals by
// adding the power of two whose last mantissa bit is the format's smallest step.
template <int kMantissaBits, int kBias>
uint8_t Fp8Code(float x, float largest) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const float magnitude = std::min(std::fabs(x), largest);
  constexpr int kShift = 23 - kMantissaBits;
  uint32_t normal = std::bit_cast<uint32_t>(magnitude);
  normal += (1U << (kShift - 1)) - 1U + ((normal >> kShift) & 1U);
  normal = (normal >> kShift) - (static_cast<uint32_t>(127 - kBias) << kMantissaBits);
  constexpr float kMagic =
      std::bit_cast<float>(static_cast<uint32_t>(127 + 23 + 1 - kBias - kMantissaBits) << 23);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(magnitude + kMagic) - std::bit_cast<uint32_t>(kMagic);
  constexpr float kSmallestNormal =
      std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias) << 23);
  return static_cast<uint8_t>(sign | (magnitude < kSmallestNormal ? subnormal : normal));
}

// Codes of one row's columns. scale/offset/inverse are indexed by column where kPerColumn.
struct RowMap {
  const Affine* maps;  // one, or one per column
  bool per_column;
};

void EncodeRow(const StreamFormat& format, const float* values, RowMap map, Columns columns,
               uint8_t* codes, QuantizeCounts* counts) {
  uint64_t outside = 0;
  // A dynamic scale is made to hold all values within a step, unless it clips or cannot be stored.
  const bool clips = format.source == ScaleSource::kDynamic && format.clip < 1;
  const float slack = format.source == ScaleSource::kDynamic && !clips ? 1 : 0;  // in steps
  if (IsInteger(format.codec)) {
    const CodeRange range = RangeOf(format);
    const bool packed = format.scale_storage == ScaleStorage::kFp32Packed;
    for (size_t c = columns.first; c < columns.end(); ++c) {
      const Affine& m = map.per_column ? map.maps[c] : map.maps[0];
      const float scaled =
          packed ? values[c] * m.inverse + m.zero : (values[c] - m.offset) * m.inverse;
      const float code = RoundAway(scaled);
      outside += code < range.low - slack || code > range.high + slack ? 1 : 0;
      codes[c] = static_cast<uint8_t>(
          static_cast<int32_t>(std::clamp(code, range.low, range.high) + range.centre));
    }
  } else {
    const bool e4m3 = format.codec == Codec::kFp8E4m3;
    const float largest = e4m3 ? kFp8E4m3Max : kFp8E5m2Max;
    const float last_step = e4m3 ? 32 : 8192;  // 416 to 448, 49,152 to 57,344
    for (size_t c = columns.first; c < columns.end(); ++c) {
      const Affine& m = map.per_column ? map.maps[c] : map.maps[0];
      const float scaled = values[c] * m.inverse;
      outside += std::fabs(scaled) > largest + slack * last_step ? 1 : 0;
      codes[c] = e4m3 ? Fp8Code<3, 7>(scaled, largest) : Fp8Code<2, 15>(scaled, largest);
    }
  }
  (clips ? counts->clipped : counts->saturated) += outside;
}

void StoreScale(const StreamLayout& layout, uint8_t* record, size_t index, const Affine& map) {
  if (layout.format.scale_storage == ScaleStorage::kFp16) {
    const uint16_t scale = Fp16FromFloat(map.scale);
    std::memcpy(record + layout.scale_offset + index * 2, &scale, 2);
    if (layout.format.zero_point) {
      const uint16_t offset = Fp16FromFloat(map.offset);
      std::memcpy(record + layout.offset_offset + index * 2, &offset, 2);
    }
    return;
  }
  if (layout.format.scale_storage == ScaleStorage::kFp32Packed) {
    const uint32_t packed =
        (std::bit_cast<uint32_t>(map.scale) & ~0xFU) | static_cast<uint32_t>(map.zero);
    std::memcpy(record + layout.scale_offset + index * 4, &packed, 4);
    return;
  }
  std::memcpy(record + layout.scale_offset + index * 4, &map.scale, 4);
  if (layout.format.zero_point) {
    std::memcpy(record + layout.offset_offset + index * 4, &map.offset, 4);
  }
}

// Per-column minima, maxima and signed extremes over rows [row, row + rows).
void ColumnRanges(const float* values, size_t row, size_t rows, Columns columns, float* low,
                  float* high, float* extreme) {
  for (size_t c = columns.first; c < columns.end(); ++c) {
    low[c] = std::numeric_limits<float>::infinity();
    high[c] = -std::numeric_limits<float>::infinity();
    extreme[c] = 0;
  }
  for (size_t r = row; r < row + rows; ++r) {
    const float* x = values + r * kBlockTokens;
    for (size_t c = columns.first; c < columns.end(); ++c) {
      low[c] = std::min(low[c], x[c]);
      high[c] = std::max(high[c], x[c]);
      extreme[c] = std::fabs(x[c]) > std::fabs(extreme[c]) ? x[c] : extreme[c];
    }
  }
}

void QuantizeByColumn(const StreamLayout& layout, const float* values, size_t head_dim,
                      Columns columns, uint8_t* record, uint8_t* codes, QuantizeCounts* counts) {
  const StreamFormat& format = layout.format;
  const size_t rows = format.granularity == Granularity::kGroup ? format.group : head_dim;
  float low[kBlockTokens];
  float high[kBlockTokens];
  float extreme[kBlockTokens];
  Affine maps[kBlockTokens];
  for (size_t row = 0; row < head_dim; row += rows) {
    ColumnRanges(values, row, rows, columns, low, high, extreme);
    for (size_t c = columns.first; c < columns.end(); ++c) {
      maps[c] = DynamicMap(format, low[c], high[c], extreme[c]);
      StoreScale(layout, record, row / rows * kBlockTokens + c, maps[c]);
    }
    for (size_t r = row; r < row + rows; ++r) {
      EncodeRow(format, values + r * kBlockTokens, {maps, true}, columns, codes + r * kBlockTokens,
                counts);
    }
  }
}

void QuantizeByRow(const StreamLayout& layout, const float* values, size_t head_dim,
                   Columns columns, std::span<const float> static_scale, uint8_t* record,
                   uint8_t* codes, QuantizeCounts* counts) {
  const StreamFormat& format = layout.format;
  for (size_t d = 0; d < head_dim; ++d) {
    const float* x = values + d * kBlockTokens;
    Affine map;
    if (format.source == ScaleSource::kDynamic) {
      const auto [low, high] = std::minmax_element(x + columns.first, x + columns.end());
      map = DynamicMap(format, *low, *high, std::fabs(*low) > std::fabs(*high) ? *low : *high);
      StoreScale(layout, record, d, map);
    } else if (format.source == ScaleSource::kStatic) {
      map.scale = static_scale[static_scale.size() == 1 ? 0 : d];
      SetInverse(&map);
    }
    EncodeRow(format, x, {&map, false}, columns, codes + d * kBlockTokens, counts);
  }
}

// Puts a code into its row; see the packing in kv_layout.h.
void PutCode(uint32_t bits, uint8_t* row, size_t column, uint8_t code) {
  if (bits == 8) {
    row[column] = code;
    return;
  }
  const size_t group_bytes = 2 * bits;  // 16 columns
  const size_t within = column % 16;
  uint8_t* byte = row + column / 16 * group_bytes + within % group_bytes;
  const size_t shift = within / group_bytes * bits;
  const uint32_t mask = ((1U << bits) - 1U) << shift;
  *byte = static_cast<uint8_t>((*byte & ~mask) | (static_cast<uint32_t>(code) << shift));
}

void StoreCodes(const StreamLayout& layout, const uint8_t* codes, size_t head_dim, Columns columns,
                bool token_major, uint8_t* record) {
  const uint32_t bits = CodecBits(layout.format.codec);
  for (size_t d = 0; d < head_dim; ++d) {
    const uint8_t* row = codes + d * kBlockTokens;
    if (!token_major && bits == 8) {
      std::memcpy(record + d * layout.row_bytes + columns.first, row + columns.first,
                  columns.count);
      continue;
    }
    for (size_t c = columns.first; c < columns.end(); ++c) {
      const size_t out_row = token_major ? c : d;
      PutCode(bits, record + out_row * layout.row_bytes, token_major ? d : c, row[c]);
    }
  }
}

void RemoveBlockMean(const StreamLayout& layout, float* values, size_t head_dim, uint8_t* record) {
  for (size_t d = 0; d < head_dim; ++d) {
    float* x = values + d * kBlockTokens;
    double sum = 0;
    for (size_t c = 0; c < kBlockTokens; ++c) sum += x[c];
    const uint16_t bits =
        Fp16FromFloat(std::clamp(static_cast<float>(sum / kBlockTokens), -65504.0F, 65504.0F));
    const float mean = FloatFromFp16(bits);
    std::memcpy(record + layout.mean_offset + d * 2, &bits, 2);
    for (size_t c = 0; c < kBlockTokens; ++c) x[c] -= mean;
  }
}

void RotateColumns(float* values, size_t head_dim, Columns columns, std::vector<float>* column) {
  column->resize(head_dim);
  for (size_t c = columns.first; c < columns.end(); ++c) {
    for (size_t d = 0; d < head_dim; ++d) (*column)[d] = values[d * kBlockTokens + c];
    ApplyHadamard(*column);
    for (size_t d = 0; d < head_dim; ++d) values[d * kBlockTokens + c] = (*column)[d];
  }
}

// Quantizes scratch->values (finite, bias already removed) into a sealed-form record.
void QuantizeInto(const StreamLayout& layout, size_t head_dim, Columns columns, bool token_major,
                  std::span<const float> static_scale, KvWriteScratch* scratch, uint8_t* record,
                  QuantizeCounts* counts) {
  const StreamFormat& format = layout.format;
  float* values = scratch->values.data();
  if (!IsQuantized(format.codec)) {
    Store16(format.codec, values, head_dim, columns, token_major, record, counts);
    return;
  }
  if (format.centering == Centering::kBlockMean) RemoveBlockMean(layout, values, head_dim, record);
  if (format.hadamard) RotateColumns(values, head_dim, columns, &scratch->column);
  scratch->codes.resize(head_dim * kBlockTokens);
  uint8_t* codes = scratch->codes.data();
  const bool by_column =
      format.source == ScaleSource::kDynamic && format.granularity != Granularity::kChannel;
  if (by_column) {
    QuantizeByColumn(layout, values, head_dim, columns, record, codes, counts);
  } else {
    QuantizeByRow(layout, values, head_dim, columns, static_scale, record, codes, counts);
  }
  StoreCodes(layout, codes, head_dim, columns, token_major, record);
}

// One block's share of WriteTokens.
void WriteColumns(const LayerCache& cache, uint32_t head, uint64_t block, Columns columns,
                  const float* k, const float* v, size_t token_stride, KvWriteScratch* scratch,
                  LayerCounts* counts) {
  const LayerLayout& layout = *cache.layout;
  const size_t head_dim = layout.head_dim;
  const bool append = layout.format.write == WriteMode::kAppend;
  scratch->values.resize(head_dim * kBlockTokens);
  float* values = scratch->values.data();

  LoadChannelMajor(k, token_stride, head_dim, columns, values, &counts->k);
  if (layout.format.k.centering == Centering::kBiasRemoved) {
    RemoveBias(cache, head, block, columns, scratch);
  }
  if (append) {
    QuantizeInto(layout.k_sealed, head_dim, columns, false,
                 HeadScales(cache.k_scales, layout, head), scratch, SealedK(cache, block, head),
                 &counts->k);
  } else {
    Store16(layout.k_open.format.codec, values, head_dim, columns, false, OpenK(cache, block, head),
            &counts->k);
  }
  counts->k.values += columns.count * head_dim;

  LoadChannelMajor(v, token_stride, head_dim, columns, values, &counts->v);
  if (append) {
    QuantizeInto(layout.v_sealed, head_dim, columns, true, HeadScales(cache.v_scales, layout, head),
                 scratch, SealedV(cache, block, head), &counts->v);
  } else {
    Store16(layout.v_open.format.codec, values, head_dim, columns, true, OpenV(cache, block, head),
            &counts->v);
  }
  counts->v.values += columns.count * head_dim;
}

void WriteTokensForTarget(const LayerCache& cache, uint32_t head, uint64_t first_position,
                          size_t count, const float* k, const float* v, size_t token_stride,
                          KvWriteScratch* scratch, LayerCounts* counts) {
  size_t done = 0;
  while (done < count) {
    const uint64_t position = first_position + done;
    const Columns columns = {
        position % kBlockTokens,
        std::min<size_t>(count - done, kBlockTokens - position % kBlockTokens)};
    WriteColumns(cache, head, position / kBlockTokens, columns, k + done * token_stride,
                 v + done * token_stride, token_stride, scratch, counts);
    done += columns.count;
  }
}

void SealStream(const StreamLayout& open, const StreamLayout& sealed, size_t head_dim,
                bool token_major, std::span<const float> static_scale, const uint8_t* from,
                uint8_t* to, KvWriteScratch* scratch, QuantizeCounts* counts) {
  if (!IsQuantized(sealed.format.codec)) {
    std::memcpy(to, from, open.bytes);
    return;
  }
  scratch->values.resize(head_dim * kBlockTokens);
  LoadOpen(open, from, head_dim, token_major, scratch->values.data());
  QuantizeInto(sealed, head_dim, {0, kBlockTokens}, token_major, static_scale, scratch, to, counts);
}

void SealBlockForTarget(const LayerCache& cache, uint64_t block, uint32_t head,
                        KvWriteScratch* scratch, LayerCounts* counts) {
  const LayerLayout& layout = *cache.layout;
  SealStream(layout.k_open, layout.k_sealed, layout.head_dim, false,
             HeadScales(cache.k_scales, layout, head), OpenK(cache, block, head),
             SealedK(cache, block, head), scratch, &counts->k);
  SealStream(layout.v_open, layout.v_sealed, layout.head_dim, true,
             HeadScales(cache.v_scales, layout, head), OpenV(cache, block, head),
             SealedV(cache, block, head), scratch, &counts->v);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(WriteTokensForTarget);
HWY_EXPORT(SealBlockForTarget);

void AddCounts(const QuantizeCounts& from, QuantizeCounts* to) {
  to->values += from.values;
  to->saturated += from.saturated;
  to->clipped += from.clipped;
  to->non_finite += from.non_finite;
}

void AddCounts(const LayerCounts& from, LayerCounts* to) {
  AddCounts(from.k, &to->k);
  AddCounts(from.v, &to->v);
}

uint64_t KvWriteScratchBytes(uint32_t head_dim) {
  return uint64_t{head_dim} * kBlockTokens * (sizeof(float) + 1) + head_dim * sizeof(float);
}

void WriteTokens(const LayerCache& cache, uint32_t head, uint64_t first_position, size_t count,
                 const float* k, const float* v, size_t token_stride, KvWriteScratch* scratch,
                 LayerCounts* counts) {
  HWY_DYNAMIC_DISPATCH(WriteTokensForTarget)
  (cache, head, first_position, count, k, v, token_stride, scratch, counts);
}

void SealBlock(const LayerCache& cache, uint64_t block, uint32_t head, KvWriteScratch* scratch,
               LayerCounts* counts) {
  HWY_DYNAMIC_DISPATCH(SealBlockForTarget)(cache, block, head, scratch, counts);
}

}  // namespace kvant
#endif
