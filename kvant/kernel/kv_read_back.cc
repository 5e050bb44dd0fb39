#include "kvant/kernel/kv_read_back.h"

#include <cstring>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

template <typename T>
T Read(const uint8_t* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

// The number that the code at (row, column) stands for, before scale and offset.
double CodeValue(const StreamLayout& layout, const uint8_t* record, size_t row, size_t column) {
  const uint8_t* codes = record + row * layout.row_bytes;
  switch (layout.code_type) {
    case CodeType::kFp32:
      return Read<float>(codes, column);
    case CodeType::kBf16:
      return FloatFromBf16(Read<uint16_t>(codes, column));
    case CodeType::kFp16:
      return FloatFromFp16(Read<uint16_t>(codes, column));
    case CodeType::kFp8E4m3:
      return FloatFromFp8E4m3(codes[column]);
    case CodeType::kFp8E5m2:
      return FloatFromFp8E5m2(codes[column]);
    case CodeType::kInt8:
      return static_cast<int8_t>(codes[column]);
    case CodeType::kUInt8:
      return codes[column];
    case CodeType::kUInt4: {
      const size_t within = column % 16;
      const uint8_t byte = codes[column / 16 * 8 + within % 8];
      return (byte >> (within / 8 * 4)) & 15;
    }
    case CodeType::kUInt2: {
      const size_t within = column % 16;
      const uint8_t byte = codes[column / 16 * 4 + within % 4];
      return (byte >> (within / 4 * 2)) & 3;
    }
  }
  KVANT_CHECK(false);
}

struct ScaleAndOffset {
  double scale = 1;
  double offset = 0;
};

ScaleAndOffset DynamicScale(const StreamLayout& layout, const uint8_t* record, size_t index) {
  const StreamFormat& format = layout.format;
  const uint8_t* scales = record + layout.scale_offset;
  const uint8_t* offsets = record + layout.offset_offset;
  if (format.scale_storage == ScaleStorage::kFp32Packed) {
    uint32_t bits = Read<uint32_t>(scales, index);
    const uint32_t zero = bits & 15U;
    bits &= ~15U;
    float scale = 0;
    std::memcpy(&scale, &bits, sizeof(scale));
    return {scale, -static_cast<double>(zero) * scale};
  }
  const bool fp16 = format.scale_storage == ScaleStorage::kFp16;
  const double scale =
      fp16 ? FloatFromFp16(Read<uint16_t>(scales, index)) : Read<float>(scales, index);
  if (!format.zero_point) return {scale, -static_cast<double>(layout.code_centre) * scale};
  return {scale,
          fp16 ? FloatFromFp16(Read<uint16_t>(offsets, index)) : Read<float>(offsets, index)};
}

ScaleAndOffset ScaleOf(const StreamLayout& layout, const LayerLayout& layer,
                       std::span<const float> static_scales, uint32_t head, const uint8_t* record,
                       size_t token, size_t channel) {
  const StreamFormat& format = layout.format;
  if (format.source == ScaleSource::kDynamic) {
    switch (format.granularity) {
      case Granularity::kChannel:
        return DynamicScale(layout, record, channel);
      case Granularity::kTokenHead:
        return DynamicScale(layout, record, token);
      case Granularity::kGroup:
        return DynamicScale(layout, record, channel / format.group * kBlockTokens + token);
      default:
        KVANT_CHECK(false);
    }
  }
  double scale = 1;
  if (format.source == ScaleSource::kStatic) {
    const size_t index = static_scales.size() == 1 ? 0
                         : static_scales.size() == layer.num_kv_heads
                             ? head
                             : head * layer.head_dim + channel;
    scale = static_scales[index];
  }
  return {scale, -static_cast<double>(layout.code_centre) * scale};
}

std::vector<double> ReadStream(const StreamLayout& layout, const LayerLayout& layer,
                               std::span<const float> static_scales, uint32_t head,
                               const uint8_t* record, bool token_major) {
  const size_t head_dim = layer.head_dim;
  std::vector<double> values(kBlockTokens * head_dim);
  for (size_t t = 0; t < kBlockTokens; ++t) {
    std::vector<float> token(head_dim);
    for (size_t d = 0; d < head_dim; ++d) {
      const ScaleAndOffset s = ScaleOf(layout, layer, static_scales, head, record, t, d);
      const double code = CodeValue(layout, record, token_major ? t : d, token_major ? d : t);
      values[t * head_dim + d] = s.offset + s.scale * code;
      token[d] = static_cast<float>(values[t * head_dim + d]);
    }
    if (layout.format.hadamard) {
      InvertHadamard(token);
      for (size_t d = 0; d < head_dim; ++d) values[t * head_dim + d] = token[d];
    }
    if (layout.format.centering == Centering::kBlockMean) {
      for (size_t d = 0; d < head_dim; ++d) {
        values[t * head_dim + d] += FloatFromFp16(Read<uint16_t>(record + layout.mean_offset, d));
      }
    }
  }
  return values;
}

}  // namespace

BlockValues ReadBack(const LayerCache& cache, uint64_t block, uint32_t head, bool open) {
  const LayerLayout& layer = *cache.layout;
  BlockValues values;
  values.k = ReadStream(open ? layer.k_open : layer.k_sealed, layer, cache.k_scales, head,
                        open ? OpenK(cache, block, head) : SealedK(cache, block, head), false);
  values.v = ReadStream(open ? layer.v_open : layer.v_sealed, layer, cache.v_scales, head,
                        open ? OpenV(cache, block, head) : SealedV(cache, block, head), true);
  if (layer.format.k.centering == Centering::kBiasRemoved) {
    for (size_t t = 0; t < kBlockTokens; ++t) {
      std::vector<float> bias(cache.k_bias.begin() + head * layer.head_dim,
                              cache.k_bias.begin() + (head + 1) * layer.head_dim);
      ApplyRope(*cache.rope, block * kBlockTokens + t, bias);
      for (size_t d = 0; d < layer.head_dim; ++d) values.k[t * layer.head_dim + d] += bias[d];
    }
  }
  return values;
}

}  // namespace kvant
