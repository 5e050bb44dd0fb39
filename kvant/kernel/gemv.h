// Few rows of activations times a packed matrix: decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hwy/aligned_allocator.h"
#include "kvant/core/thread_pool.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

inline constexpr size_t kMaxGemvBatch = 64;

// One row of activations in groups of 32: activation i of group g is steps[g] * codes[32g + i].
struct ActivationCodes {
  int16_t* codes;  // [columns]
  float* steps;    // [columns / 32]
  float* sums;     // [columns / 32] steps[g] times the sum of the group's codes
};

// A batch of activations as integers, for matrices of up to max_columns columns.
class GemvWorkspace {
 public:
  explicit GemvWorkspace(uint64_t max_columns);

  uint64_t max_columns() const { return max_columns_; }
  // Row b of the batch. Its steps and sums are followed by zeros up to a multiple of eight groups.
  // REQUIRES: b < kMaxGemvBatch.
  ActivationCodes row(size_t b) const;

 private:
  uint64_t max_columns_;
  hwy::AlignedFreeUniquePtr<int16_t[]> codes_;
  hwy::AlignedFreeUniquePtr<float[]> steps_;
  hwy::AlignedFreeUniquePtr<float[]> sums_;
};

// Bytes that such a workspace allocates.
uint64_t GemvWorkspaceBytes(uint64_t max_columns);

// out[b][r] = Σ_c weights[r][c] · x[b][c], weights decoded in registers.
// - F32, F16 and BF16 weights, and every type on the portable path: products and sums in float32.
// - Packed weights on AVX2 and AVX-512: activations are rounded to 16-bit integers, each group of
// 32
//   to 32,767 steps of its largest magnitude, an error of at most 2^-16 of that magnitude; products
//   within a group are exact integers, the groups add in float32. A non-finite activation makes
//   NaN of its row's outputs.
// The order of additions depends on the number of columns and the instruction set only, never on
// the batch, the place in it, the rows or the threads: an output has the same bits in every
// company. REQUIRES: 1 <= batch <= kMaxGemvBatch, x [batch, columns], out [batch, rows], columns a
// multiple of the type's block and at most workspace.max_columns().
void MultiplyRows(const PackedMatrix& weights, std::span<const float> x, size_t batch, float* out,
                  ThreadPool& pool, GemvWorkspace& workspace);

}  // namespace kvant
