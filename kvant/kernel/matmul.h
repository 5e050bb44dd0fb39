// Many rows of activations times a packed matrix: prefill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "kvant/core/thread_pool.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

// A panel of decoded weights for each thread.
class MatmulWorkspace {
 public:
  explicit MatmulWorkspace(size_t num_threads);

  size_t num_threads() const { return buffers_.size(); }
  // REQUIRES: worker < num_threads(); one thread per worker at a time.
  float* buffer(size_t worker) { return buffers_[worker].get(); }

 private:
  std::vector<hwy::AlignedFreeUniquePtr<float[]>> buffers_;
};

// Bytes that a workspace allocates, whatever the matrices.
uint64_t MatmulWorkspaceBytes(size_t num_threads);

// out[t][r] = Σ_c weights[r][c] · x[t][c] in float32. Panels of weights are decoded once and used
// for up to 256 tokens. Every output is one chain of multiply-adds over c in order, so its bits do
// not depend on how many tokens come with it, on its place among them, on the rows or on the
// threads; they depend on the instruction set only where it lacks fused multiply-add.
// x [tokens, columns], out [tokens, rows]. REQUIRES: columns a multiple of the type's block;
// workspace.num_threads() >= pool.num_threads().
void Multiply(const PackedMatrix& weights, const float* x, size_t tokens, float* out,
              ThreadPool& pool, MatmulWorkspace& workspace);

}  // namespace kvant
