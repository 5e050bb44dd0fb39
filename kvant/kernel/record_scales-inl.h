// Scales and offsets of one record of K or V, as float32.
#if defined(KVANT_KERNEL_RECORD_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_RECORD_SCALES_INL_H_
#undef KVANT_KERNEL_RECORD_SCALES_INL_H_
#else
#define KVANT_KERNEL_RECORD_SCALES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "hwy/highway.h"
#include "kvant/kernel/code_matmul-inl.h"
#include "kvant/kernel/kv_layout.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

void LoadHalves(const uint8_t* halves, size_t count, float* out) {
  for (size_t i = 0; i < count; i += hn::Lanes(FloatTag())) {
    hn::StoreU(Decode<CodeType::kFp16>::Load(halves, i), FloatTag(), out + i);
  }
}

// `count` dynamic scales from index `first`, and the offsets that go with them: a value is
// offset + scale * code, the code's centre already folded into the offset.
void LoadDynamicScales(const StreamLayout& layout, const uint8_t* record, size_t first,
                       size_t count, float* scale, float* offset) {
  const StreamFormat& format = layout.format;
  if (format.scale_storage == ScaleStorage::kFp16) {
    LoadHalves(record + layout.scale_offset + 2 * first, count, scale);
  } else {
    std::memcpy(scale, record + layout.scale_offset + 4 * first, 4 * count);
  }
  if (format.scale_storage == ScaleStorage::kFp32Packed) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t packed = 0;
      std::memcpy(&packed, &scale[i], 4);
      const auto zero = static_cast<float>(packed & 0xFU);
      packed &= ~0xFU;
      std::memcpy(&scale[i], &packed, 4);
      offset[i] = -zero * scale[i];
    }
  } else if (!format.zero_point) {
    for (size_t i = 0; i < count; ++i) offset[i] = -layout.code_centre * scale[i];
  } else if (format.scale_storage == ScaleStorage::kFp16) {
    LoadHalves(record + layout.offset_offset + 2 * first, count, offset);
  } else {
    std::memcpy(offset, record + layout.offset_offset + 4 * first, 4 * count);
  }
}

// The one scale of a stream that has only one per head; 1 where there is none.
float SingleScale(const StreamFormat& format, std::span<const float> static_scale) {
  return format.source == ScaleSource::kStatic ? static_scale[0] : 1.0F;
}

// scale and offset per channel, static or dynamic.
void LoadChannelScales(const StreamLayout& layout, std::span<const float> static_scale,
                       const uint8_t* record, size_t head_dim, float* scale, float* offset) {
  if (layout.format.source == ScaleSource::kDynamic) {
    LoadDynamicScales(layout, record, 0, head_dim, scale, offset);
    return;
  }
  for (size_t d = 0; d < head_dim; ++d) {
    scale[d] = static_scale[d];
    offset[d] = -layout.code_centre * scale[d];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
