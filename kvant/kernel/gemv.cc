#include "kvant/kernel/gemv.h"

#include <algorithm>

#include "kvant/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/gemv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kvant/kernel/dequantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Columns decoded at once: one block of the K types, 1 KiB of floats.
constexpr size_t kTile = 256;
// Independent chains of additions, to cover the latency of a fused multiply-add.
constexpr size_t kChains = 4;

// chains[i] += tile · x over every kChains-th vector.
HWY_INLINE void DotTile(const float* tile, const float* x, size_t columns, FloatVec* chains) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec c0 = chains[0];
  FloatVec c1 = chains[1];
  FloatVec c2 = chains[2];
  FloatVec c3 = chains[3];
  size_t i = 0;
  for (; i + kChains * lanes <= columns; i += kChains * lanes) {
    c0 = hn::MulAdd(hn::LoadU(d, tile + i), hn::LoadU(d, x + i), c0);
    c1 = hn::MulAdd(hn::LoadU(d, tile + i + lanes), hn::LoadU(d, x + i + lanes), c1);
    c2 = hn::MulAdd(hn::LoadU(d, tile + i + 2 * lanes), hn::LoadU(d, x + i + 2 * lanes), c2);
    c3 = hn::MulAdd(hn::LoadU(d, tile + i + 3 * lanes), hn::LoadU(d, x + i + 3 * lanes), c3);
  }
  for (; i < columns; i += lanes) {  // columns is a multiple of 16
    c0 = hn::MulAdd(hn::LoadU(d, tile + i), hn::LoadU(d, x + i), c0);
  }
  chains[0] = c0;
  chains[1] = c1;
  chains[2] = c2;
  chains[3] = c3;
}

void MultiplyRowsForTarget(const PackedMatrix& w, const float* x, size_t batch, size_t first_row,
                           size_t end_row, float* out) {
  const FloatTag d;
  const uint64_t row_bytes = w.row_bytes();
  const uint64_t tile_bytes =
      kTile / WeightBlockElements(w.type) * WeightBlockBytes(w.type);
  HWY_ALIGN float tile[kTile];
  FloatVec chains[kMaxGemvBatch][kChains];
  for (size_t row = first_row; row < end_row; ++row) {
    const uint8_t* bytes = w.data + row * row_bytes;
    for (size_t b = 0; b < batch; ++b) {
      for (size_t i = 0; i < kChains; ++i) chains[b][i] = hn::Zero(d);
    }
    for (size_t column = 0; column < w.columns; column += kTile) {
      const size_t count = std::min<size_t>(kTile, w.columns - column);
      DecodeWeights(w.type, bytes, count, tile);
      bytes += tile_bytes;
      for (size_t b = 0; b < batch; ++b) {
        DotTile(tile, x + b * w.columns + column, count, chains[b]);
      }
    }
    for (size_t b = 0; b < batch; ++b) {
      const FloatVec sum = hn::Add(hn::Add(chains[b][0], chains[b][1]),
                                   hn::Add(chains[b][2], chains[b][3]));
      out[b * w.rows + row] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(MultiplyRowsForTarget);

void MultiplyRows(const PackedMatrix& weights, std::span<const float> x, size_t batch, float* out,
                  ThreadPool& pool) {
  KVANT_CHECK(batch >= 1 && batch <= kMaxGemvBatch);
  KVANT_CHECK(x.size() == batch * weights.columns && weights.columns % 16 == 0);
  // Rows of one task: enough to hide the cost of fetching a task, few enough to balance threads.
  constexpr size_t kRowsPerTask = 64;
  const size_t tasks = (weights.rows + kRowsPerTask - 1) / kRowsPerTask;
  pool.ParallelFor(tasks, [&](size_t task, size_t) {
    const size_t first = task * kRowsPerTask;
    const size_t end = std::min<size_t>(first + kRowsPerTask, weights.rows);
    HWY_DYNAMIC_DISPATCH(MultiplyRowsForTarget)(weights, x.data(), batch, first, end, out);
  });
}

}  // namespace kvant
#endif
