// The running softmax over the blocks of a tile.
#if defined(KVANT_KERNEL_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_ATTENTION_SOFTMAX_INL_H_
#undef KVANT_KERNEL_ATTENTION_SOFTMAX_INL_H_
#else
#define KVANT_KERNEL_ATTENTION_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/attention_tile.h"
#include "kvant/kernel/row_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// Turns scores into probabilities relative to the running maximum, and rescales what was summed
// before. Returns the number of leading tokens that any row sees.
size_t UpdateSoftmax(const TileContext& c, uint64_t block, const SoftmaxState& state,
                     bool separate_sealed) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const size_t head_dim = c.shape.head_dim;
  const uint64_t start = block * kBlockTokens;
  size_t depth = 0;
  for (size_t r = 0; r < c.rows; ++r) {
    float* row = c.buffers.scores + r * kBlockTokens;
    const uint64_t position = PositionOfRow(c, r);
    const uint64_t window = c.shape.window_tokens;
    const uint64_t oldest = window != 0 && position >= window ? position - window + 1 : 0;
    const size_t first = oldest > start ? std::min<uint64_t>(oldest - start, kBlockTokens) : 0;
    const size_t end =
        position < start ? 0 : std::min<uint64_t>(position - start + 1, kBlockTokens);
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    std::fill(row, row + std::min(first, size_t{kBlockTokens}), kMasked);
    std::fill(row + end, row + kBlockTokens, kMasked);
    if (first >= end) {
      std::fill_n(row, kBlockTokens, 0.0F);
      continue;
    }
    depth = std::max(depth, end);

    FloatVec largest = hn::LoadU(d, row);
    for (size_t t = lanes; t < kBlockTokens; t += lanes) {
      largest = hn::Max(largest, hn::LoadU(d, row + t));
    }
    const float maximum = std::max(state.maximum[r], hn::GetLane(hn::MaxOfLanes(d, largest)));
    if (maximum != state.maximum[r]) {
      const float correction = std::exp(state.maximum[r] - maximum);  // 0 at the first block
      state.sum[r] *= correction;
      ScaleBy(state.output + r * head_dim, head_dim, correction);
      if (separate_sealed) {
        ScaleBy(c.buffers.sealed_output + r * head_dim, head_dim, correction);
      }
      state.maximum[r] = maximum;
    }
    const FloatVec shift = hn::Set(d, maximum);
    FloatVec sum = hn::Zero(d);
    for (size_t t = 0; t < kBlockTokens; t += lanes) {
      const FloatVec p = hn::Exp(d, hn::Sub(hn::LoadU(d, row + t), shift));
      sum = hn::Add(sum, p);
      hn::StoreU(p, d, row + t);
    }
    state.sum[r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  return depth;
}

// FlashAttention-3 casts exp(score - maximum + 8·ln 2) to e4m3, so that the largest is 256.
void RoundProbabilities(const TileContext& c) {
  for (size_t i = 0; i < c.rows * kBlockTokens; ++i) {
    float& p = c.buffers.scores[i];
    p = FloatFromFp8E4m3(Fp8E4m3FromFloat(p * 256.0F)) / 256.0F;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
