#include "kvant/kernel/gemv.h"

#include <algorithm>
#include <cstring>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/gemv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: compiled once per target.
#include "kvant/kernel/dequantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// Independent chains of additions per output: vector v of a row's group of 32 weights goes to chain
// v % kChains. Four hide the latency of a multiply-add; 16-lane vectors have only two per group,
// and there decoding, not the chain, sets the pace.
constexpr size_t kChains = std::min<size_t>(4, 32 / kLanes);

// Outputs of a batch whose chains are kept in registers together, so that each vector of a decoded
// tile is loaded once for all of them: kBatchGroup * kChains = 8 of at least 16 registers.
constexpr size_t kBatchGroup = 8 / kChains;

// Weights decoded at once for a batch: one block of the K types, 1 KiB of floats in the L1 cache.
constexpr size_t kTile = 256;

HWY_INLINE float SumChains(const FloatVec (&chains)[kChains]) {
  const FloatTag d;
  FloatVec sum = hn::Add(chains[0], chains[1]);
  if constexpr (kChains == 4) sum = hn::Add(sum, hn::Add(chains[2], chains[3]));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Adds one block of a row against one row of activations, from registers.
template <typename Block>
HWY_INLINE void AddBlock(const uint8_t* bytes, const float* x, FloatVec (&chains)[kChains]) {
  const auto add = [&](size_t v, FloatVec w) HWY_ATTR {
    chains[v % kChains] = hn::MulAdd(w, hn::LoadU(FloatTag(), x + v * kLanes), chains[v % kChains]);
  };
  if constexpr (kLanes >= 8) {
    Block::Decode(bytes, add);
  } else {
    // A chain gets several vectors of a group, which must be added in the order of AddTile but are
    // not decoded in it.
    float tile[Block::kElements];
    DecodeBlockToMemory<Block>(bytes, tile);
    ForVectors<Block::kElements>(
        [&](size_t v) HWY_ATTR { add(v, hn::LoadU(FloatTag(), tile + v * kLanes)); });
  }
}

template <typename Block>
HWY_INLINE float DotRow(const uint8_t* row, const float* x, size_t columns) {
  FloatVec chains[kChains];
  for (FloatVec& chain : chains) chain = hn::Zero(FloatTag());
  size_t column = 0;
  for (; column + Block::kElements <= columns; column += Block::kElements) {
    AddBlock<Block>(row, x + column, chains);
    row += Block::kBytes;
  }
  if constexpr (Block::kUnpacked) {
    if (column < columns) {
      const size_t rest = columns - column;
      uint8_t padded_row[Block::kBytes] = {};
      float padded_x[Block::kElements] = {};
      std::memcpy(padded_row, row, rest * Block::kBytes / Block::kElements);
      std::memcpy(padded_x, x + column, rest * sizeof(float));
      AddBlock<Block>(padded_row, padded_x, chains);
    }
  }
  return SumChains(chains);
}

// Chains of kCount rows of activations against a decoded tile; columns a multiple of 32.
template <size_t kCount>
HWY_INLINE void AddTile(const float* tile, const float* x, size_t stride, size_t columns,
                        float* stored_chains) {
  const FloatTag d;
  FloatVec chains[kCount][kChains];
  Unroll<kCount * kChains>([&](auto i) HWY_ATTR {
    chains[i / kChains][i % kChains] = hn::LoadU(d, stored_chains + i * kLanes);
  });
  for (size_t column = 0; column < columns; column += kChains * kLanes) {
    Unroll<kChains>([&](auto c) HWY_ATTR {
      const FloatVec w = hn::LoadU(d, tile + column + c * kLanes);
      Unroll<kCount>([&](auto b) HWY_ATTR {
        const FloatVec value = hn::LoadU(d, x + b * stride + column + c * kLanes);
        chains[b][c] = hn::MulAdd(w, value, chains[b][c]);
      });
    });
  }
  Unroll<kCount * kChains>([&](auto i) HWY_ATTR {
    hn::StoreU(chains[i / kChains][i % kChains], d, stored_chains + i * kLanes);
  });
}

// One row against the whole batch: decoded tile by tile, the chains in memory between tiles.
template <typename Block>
HWY_INLINE void DotRowWithBatch(const PackedMatrix& w, size_t row, const float* x, size_t batch,
                                float* out) {
  constexpr size_t kStored = kChains * kLanes;
  alignas(64) float tile[kTile];
  alignas(64) float stored[kMaxGemvBatch * kStored];
  alignas(64) float padded_x[32];
  std::memset(stored, 0, batch * kStored * sizeof(float));
  const uint8_t* bytes = w.data + row * w.row_bytes();
  const size_t whole_columns = w.columns / 32 * 32;
  for (size_t column = 0; column < w.columns; column += kTile) {
    DecodeToMemory<Block>(bytes, std::min<size_t>(kTile, w.columns - column), tile);
    bytes += kTile / Block::kElements * Block::kBytes;
    const size_t count = std::min<size_t>(kTile, whole_columns - std::min(column, whole_columns));
    size_t b = 0;
    for (; b + kBatchGroup <= batch; b += kBatchGroup) {
      AddTile<kBatchGroup>(tile, x + b * w.columns + column, w.columns, count,
                           stored + b * kStored);
    }
    for (; b < batch; ++b) {
      AddTile<1>(tile, x + b * w.columns + column, 0, count, stored + b * kStored);
    }
    if (column + kTile < w.columns || whole_columns == w.columns) continue;
    for (b = 0; b < batch; ++b) {  // the last, partial group of an unpacked type
      const size_t rest = w.columns - whole_columns;
      std::memset(padded_x, 0, sizeof(padded_x));
      std::memcpy(padded_x, x + b * w.columns + whole_columns, rest * sizeof(float));
      AddTile<1>(tile + count, padded_x, 0, 32, stored + b * kStored);
    }
  }
  for (size_t b = 0; b < batch; ++b) {
    FloatVec chains[kChains];
    for (size_t c = 0; c < kChains; ++c) {
      chains[c] = hn::Load(FloatTag(), stored + b * kStored + c * kLanes);
    }
    out[b * w.rows + row] = SumChains(chains);
  }
}

void MultiplyRowsForTarget(const PackedMatrix& w, const float* x, size_t batch, size_t first_row,
                           size_t end_row, float* out) {
  WithWeightBlock(w.type, [&](auto block) HWY_ATTR {
    using Block = decltype(block);
    const uint64_t row_bytes = w.row_bytes();
    for (size_t row = first_row; row < end_row; ++row) {
      if (batch == 1) {
        out[row] = DotRow<Block>(w.data + row * row_bytes, x, w.columns);
      } else {
        DotRowWithBatch<Block>(w, row, x, batch, out);
      }
    }
  });
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
  KVANT_CHECK(x.size() == batch * weights.columns);
  // One run of rows per thread: the weights come from memory, and hardware prefetching pays only on
  // long runs (SmolLM2-135M on 2 threads: 5.2 ms a token, in tasks of 32 rows 7.6 ms).
  constexpr size_t kMinRowsPerTask = 32;
  const size_t rows_per_task =
      std::max(kMinRowsPerTask, DivideRoundUp(weights.rows, pool.num_threads()));
  const size_t tasks = DivideRoundUp(weights.rows, rows_per_task);
  pool.ParallelFor(tasks, [&](size_t task, size_t) {
    const size_t first = task * rows_per_task;
    const size_t end = std::min<size_t>(first + rows_per_task, weights.rows);
    HWY_DYNAMIC_DISPATCH(MultiplyRowsForTarget)(weights, x.data(), batch, first, end, out);
  });
}

}  // namespace kvant
#endif
