// Few rows of activations times a packed matrix: decoding.
#pragma once

#include <cstddef>
#include <span>

#include "kvant/core/thread_pool.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

inline constexpr size_t kMaxGemvBatch = 64;

// out[b][r] = Σ_c weights[r][c] · x[b][c] in float32, weights decoded in registers. The order of
// additions depends on the number of columns and the instruction set only, never on the batch, the
// place in it, the rows or the threads: an output has the same bits in every company.
// REQUIRES: 1 <= batch <= kMaxGemvBatch, x [batch, columns], out [batch, rows], columns a multiple
// of the type's block.
void MultiplyRows(const PackedMatrix& weights, std::span<const float> x, size_t batch, float* out,
                  ThreadPool& pool);

}  // namespace kvant
