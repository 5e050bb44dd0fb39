// Queries against the K of one block.
#if defined(KVANT_KERNEL_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_ATTENTION_SCORES_INL_H_
#undef KVANT_KERNEL_ATTENTION_SCORES_INL_H_
#else
#define KVANT_KERNEL_ATTENTION_SCORES_INL_H_
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

// scores[r][t] = q[r] · K[t] for the 64 tokens of one record, everything but the removed bias.
void ScoreRecord(const TileContext& c, const StreamLayout& layout,
                 std::span<const float> static_scale, const uint8_t* record) {
  const StreamFormat& format = layout.format;
  const TileBuffers& b = c.buffers;
  const size_t head_dim = c.shape.head_dim;
  const float* query = format.hadamard ? b.rotated_query : b.query;
  const float* query_sum = format.hadamard ? b.rotated_row_sum : b.row_sum;
  MatmulShape shape = {head_dim, head_dim, layout.row_bytes, kBlockTokens};
  std::fill_n(b.scores, c.rows * kBlockTokens, 0.0F);

  const bool dynamic = format.source == ScaleSource::kDynamic;
  if (format.granularity == Granularity::kChannel) {
    LoadChannelScales(layout, static_scale, record, head_dim, b.scale, b.offset);
    for (size_t r = 0; r < c.rows; ++r) {
      Product(query + r * head_dim, b.scale, head_dim, b.scratch + r * head_dim);
      const float constant = DotOf(query + r * head_dim, b.offset, head_dim);
      std::fill_n(b.scores + r * kBlockTokens, kBlockTokens, constant);
    }
    CodeMatmul(layout.code_type, shape, b.scratch, c.rows, record, kBlockTokens, b.scores);
  } else if (format.granularity == Granularity::kTokenHead && dynamic) {
    LoadDynamicScales(layout, record, 0, kBlockTokens, b.scale, b.offset);
    CodeMatmul(layout.code_type, shape, query, c.rows, record, kBlockTokens, b.scores);
    for (size_t r = 0; r < c.rows; ++r) {
      float* row = b.scores + r * kBlockTokens;
      Product(row, b.scale, kBlockTokens, row);
      AddScaled(query_sum[r], b.offset, kBlockTokens, row);
    }
  } else if (format.granularity == Granularity::kGroup) {
    shape.depth = format.group;
    for (size_t g = 0; g < head_dim / format.group; ++g) {
      const size_t channel = g * format.group;
      LoadDynamicScales(layout, record, g * kBlockTokens, kBlockTokens, b.scale, b.offset);
      std::fill_n(b.temporary, c.rows * kBlockTokens, 0.0F);
      CodeMatmul(layout.code_type, shape, query + channel, c.rows,
                 record + channel * layout.row_bytes, kBlockTokens, b.temporary);
      for (size_t r = 0; r < c.rows; ++r) {
        float* row = b.scores + r * kBlockTokens;
        AddProduct(b.temporary + r * kBlockTokens, b.scale, kBlockTokens, row);
        AddScaled(SumOf(query + r * head_dim + channel, format.group), b.offset, kBlockTokens, row);
      }
    }
  } else {
    const float scale = SingleScale(format, static_scale);
    CodeMatmul(layout.code_type, shape, query, c.rows, record, kBlockTokens, b.scores);
    if (scale != 1.0F) ScaleBy(b.scores, c.rows * kBlockTokens, scale);
    if (layout.code_centre != 0) {
      for (size_t r = 0; r < c.rows; ++r) {
        AddTo(b.scores + r * kBlockTokens, kBlockTokens,
              -layout.code_centre * scale * query_sum[r]);
      }
    }
  }
  if (format.centering == Centering::kBlockMean) {
    LoadHalves(record + layout.mean_offset, head_dim, b.scale);
    for (size_t r = 0; r < c.rows; ++r) {
      AddTo(b.scores + r * kBlockTokens, kBlockTokens,
            DotOf(b.query + r * head_dim, b.scale, head_dim));
    }
  }
}

// Adds q · RoPE(bias, position) for the block's 64 positions. The angle of position 64·block + t
// is a rotation by the block's start, folded into the coefficients, and one by t, the same table
// in every block.
void AddBiasScores(const TileContext& c, uint64_t block) {
  const RopeTable& rope = *c.tile.sequence->cache.rope;
  const size_t head_dim = c.shape.head_dim;
  const size_t half = head_dim / 2;
  const std::span<const float> cosine = rope.CosineAt(block * kBlockTokens);
  const std::span<const float> sine = rope.SineAt(block * kBlockTokens);
  for (size_t r = 0; r < c.rows; ++r) {
    const float* in = c.buffers.bias_angles + r * head_dim;
    float* out = c.buffers.scratch + r * head_dim;
    for (size_t i = 0; i < half; ++i) {
      out[i] = in[i] * cosine[i] + in[half + i] * sine[i];
      out[half + i] = in[half + i] * cosine[i] - in[i] * sine[i];
    }
  }
  const MatmulShape shape = {head_dim, head_dim, kBlockTokens * sizeof(float), kBlockTokens};
  CodeMatmul(CodeType::kFp32, shape, c.buffers.scratch, c.rows,
             reinterpret_cast<const uint8_t*>(rope.within_block.data()), kBlockTokens,
             c.buffers.scores);
}

// q · RoPE(bias, p) = Σ_i A_i cos(p θ_i) + B_i sin(p θ_i): A, then B, per row.
void PrepareBiasAngles(const TileContext& c) {
  const LayerCache& cache = c.tile.sequence->cache;
  const size_t head_dim = c.shape.head_dim;
  const size_t half = head_dim / 2;
  const float* bias = cache.k_bias.data() + size_t{c.tile.kv_head} * head_dim;
  const size_t stride = cache.rope->interleaved ? 2 : 1;
  const size_t partner = cache.rope->interleaved ? 1 : half;
  for (size_t r = 0; r < c.rows; ++r) {
    const float* q = c.buffers.query + r * head_dim;
    float* out = c.buffers.bias_angles + r * head_dim;
    for (size_t i = 0; i < half; ++i) {
      const float q0 = q[i * stride];
      const float q1 = q[i * stride + partner];
      const float b0 = bias[i * stride];
      const float b1 = bias[i * stride + partner];
      out[i] = q0 * b0 + q1 * b1;
      out[half + i] = q1 * b0 - q0 * b1;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
