// Few rows of activations times a packed matrix: decoding.
#pragma once

#include <cstddef>
#include <span>

#include "kvant/core/thread_pool.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

inline constexpr size_t kMaxGemvBatch = 64;

// out[b][r] = Σ_c weights[r][c] · x[b][c] in float32, weights decoded tile by tile into the L1
// cache and used for the whole batch. The order of additions depends on the instruction set only,
// never on the batch, the rows or the threads.
// REQUIRES: 1 <= batch <= kMaxGemvBatch, x [batch, columns], out [batch, rows].
void MultiplyRows(const PackedMatrix& weights, std::span<const float> x, size_t batch, float* out,
                  ThreadPool& pool);

}  // namespace kvant
