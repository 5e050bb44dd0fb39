// Probabilities times the V of one block.
#if defined(KVANT_KERNEL_ATTENTION_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_ATTENTION_VALUES_INL_H_
#undef KVANT_KERNEL_ATTENTION_VALUES_INL_H_
#else
#define KVANT_KERNEL_ATTENTION_VALUES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hwy/highway.h"
#include "kvant/kernel/attention_tile.h"
#include "kvant/kernel/code_matmul-inl.h"
#include "kvant/kernel/record_scales-inl.h"
#include "kvant/kernel/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// output[r] += Σ_t p[r][t] · V[t] over the record's first `depth` tokens.
void AddValues(const TileContext& c, const StreamLayout& layout,
               std::span<const float> static_scale, const uint8_t* record, size_t depth,
               float* output) {
  const StreamFormat& format = layout.format;
  const TileBuffers& b = c.buffers;
  const size_t head_dim = c.shape.head_dim;
  const MatmulShape shape = {kBlockTokens, depth, layout.row_bytes, head_dim};
  const float* probabilities = b.scores;
  const bool by_token =
      format.granularity == Granularity::kTokenHead && format.source == ScaleSource::kDynamic;

  if (by_token || format.granularity == Granularity::kGroup) {
    const size_t channels = by_token ? head_dim : format.group;
    for (size_t g = 0; g < head_dim / channels; ++g) {
      LoadDynamicScales(layout, record, g * kBlockTokens, kBlockTokens, b.scale, b.offset);
      for (size_t r = 0; r < c.rows; ++r) {
        const float* p = probabilities + r * kBlockTokens;
        Product(p, b.scale, kBlockTokens, b.scratch + r * kBlockTokens);
        AddTo(output + r * head_dim + g * channels, channels, DotOf(p, b.offset, kBlockTokens));
      }
      // A group's columns start at a multiple of 16, so its codes start at a whole byte.
      CodeMatmul(layout.code_type, shape, b.scratch, c.rows,
                 record + g * channels * CodecBits(format.codec) / 8, channels,
                 output + g * channels);
    }
    return;
  }
  if (format.granularity == Granularity::kChannel) {
    LoadChannelScales(layout, static_scale, record, head_dim, b.scale, b.offset);
    std::fill_n(b.temporary, c.rows * head_dim, 0.0F);
    CodeMatmul(layout.code_type, shape, probabilities, c.rows, record, head_dim, b.temporary);
    for (size_t r = 0; r < c.rows; ++r) {
      const float sum = SumOf(probabilities + r * kBlockTokens, kBlockTokens);
      AddProduct(b.temporary + r * head_dim, b.scale, head_dim, output + r * head_dim);
      AddScaled(sum, b.offset, head_dim, output + r * head_dim);
    }
    return;
  }
  const float scale = SingleScale(format, static_scale);
  const float* factors = probabilities;
  if (scale != 1.0F) {
    std::copy_n(probabilities, c.rows * kBlockTokens, b.scratch);
    ScaleBy(b.scratch, c.rows * kBlockTokens, scale);
    factors = b.scratch;
  }
  if (layout.code_centre != 0) {
    for (size_t r = 0; r < c.rows; ++r) {
      AddTo(output + r * head_dim, head_dim,
            -layout.code_centre * SumOf(factors + r * kBlockTokens, kBlockTokens));
    }
  }
  CodeMatmul(layout.code_type, shape, factors, c.rows, record, head_dim, output);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
