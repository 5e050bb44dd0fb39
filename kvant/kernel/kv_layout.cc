#include "kvant/kernel/kv_layout.h"

#include "kvant/core/error.h"

namespace kvant {

namespace {

CodeType CodeTypeOf(const StreamFormat& format) {
  switch (format.codec) {
    case Codec::kFp32:
      return CodeType::kFp32;
    case Codec::kBf16:
      return CodeType::kBf16;
    case Codec::kFp16:
      return CodeType::kFp16;
    case Codec::kFp8E4m3:
      return CodeType::kFp8E4m3;
    case Codec::kFp8E5m2:
      return CodeType::kFp8E5m2;
    case Codec::kInt8:
      return format.zero_point ? CodeType::kUInt8 : CodeType::kInt8;
    case Codec::kInt4:
      return CodeType::kUInt4;
    case Codec::kInt2:
      return CodeType::kUInt2;
  }
  KVANT_CHECK(false);
}

float CodeCentreOf(const StreamFormat& format) {
  if (format.zero_point) return 0;
  if (format.codec == Codec::kInt4) return 8;
  if (format.codec == Codec::kInt2) return 2;
  return 0;
}

// Scales kept in the block: none unless they are dynamic.
uint64_t NumScales(const StreamFormat& format, uint32_t head_dim) {
  if (format.source != ScaleSource::kDynamic) return 0;
  switch (format.granularity) {
    case Granularity::kChannel:
      return head_dim;
    case Granularity::kTokenHead:
      return kBlockTokens;
    case Granularity::kGroup:
      return uint64_t{kBlockTokens} * (head_dim / format.group);
    default:
      return 0;
  }
}

StreamLayout MakeStreamLayout(const StreamFormat& format, uint32_t rows, uint32_t columns,
                              uint32_t head_dim) {
  KVANT_CHECK(format.granularity != Granularity::kGroup || head_dim % format.group == 0);
  StreamLayout layout;
  layout.format = format;
  layout.code_type = CodeTypeOf(format);
  layout.code_centre = CodeCentreOf(format);
  layout.row_bytes = columns * CodecBits(format.codec) / 8;
  const uint64_t scales = NumScales(format, head_dim);
  const bool fp16 = format.scale_storage == ScaleStorage::kFp16;
  uint64_t end = uint64_t{rows} * layout.row_bytes;
  layout.scale_offset = end;
  end += scales * (fp16 ? 2 : 4);
  layout.offset_offset = end;
  if (format.zero_point && format.scale_storage != ScaleStorage::kFp32Packed) {
    end += scales * (fp16 ? 2 : 4);
  }
  layout.mean_offset = end;
  if (format.centering == Centering::kBlockMean) end += uint64_t{head_dim} * 2;
  layout.bytes = end;
  return layout;
}

StreamFormat OpenFormat(const StreamFormat& format) {
  StreamFormat open;
  open.codec = OpenCodec(format);
  if (format.centering == Centering::kBiasRemoved) open.centering = Centering::kBiasRemoved;
  return open;
}

}  // namespace

LayerLayout MakeLayerLayout(const KvFormat& format, uint32_t num_kv_heads, uint32_t head_dim) {
  KVANT_CHECK(num_kv_heads > 0 && head_dim > 0 && head_dim % 16 == 0);
  LayerLayout layout;
  layout.format = format;
  layout.num_kv_heads = num_kv_heads;
  layout.head_dim = head_dim;
  layout.k_open = MakeStreamLayout(OpenFormat(format.k), head_dim, kBlockTokens, head_dim);
  layout.v_open = MakeStreamLayout(OpenFormat(format.v), kBlockTokens, head_dim, head_dim);
  layout.k_sealed = MakeStreamLayout(format.k, head_dim, kBlockTokens, head_dim);
  layout.v_sealed = MakeStreamLayout(format.v, kBlockTokens, head_dim, head_dim);
  layout.open_bytes = num_kv_heads * layout.open_head_bytes();
  layout.sealed_bytes = num_kv_heads * layout.sealed_head_bytes();
  return layout;
}

std::span<const float> HeadScales(std::span<const float> scales, const LayerLayout& layout,
                                  uint32_t head) {
  if (scales.size() <= 1) return scales;
  if (scales.size() == layout.num_kv_heads) return scales.subspan(head, 1);
  return scales.subspan(size_t{head} * layout.head_dim, layout.head_dim);
}

bool SeesOpenForm(const KvFormat& format, uint64_t block, uint64_t query_block) {
  if (format.write == WriteMode::kAppend) return false;
  return block < format.sink_blocks() || block + format.recent_blocks() >= query_block;
}

}  // namespace kvant
