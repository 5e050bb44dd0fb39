// Many rows of activations times a packed matrix: prefill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvant/core/thread_pool.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

// Buffers of one thread each: a decoded panel of weights and a padded tile of rows.
class MatmulWorkspace {
 public:
  explicit MatmulWorkspace(size_t num_threads);

  struct Buffers {
    std::vector<float> panel;   // [kPanelRows, columns]
    std::vector<float> input;   // [kRowTile, columns]
    std::vector<float> output;  // [kRowTile, kPanelRows]
  };
  Buffers& buffers(size_t worker) { return buffers_[worker]; }

 private:
  std::vector<Buffers> buffers_;
};

// Bytes that the workspace grows to for matrices of up to max_columns inputs.
uint64_t MatmulWorkspaceBytes(size_t num_threads, uint64_t max_columns);

// out[t][r] = Σ_c weights[r][c] · x[t][c] in float32: panels of weights are decoded once and
// multiplied by oneDNN. oneDNN is always called with the same shape (tiles of rows padded with
// zeros) and in one thread, so a row's result does not depend on how many rows come with it, on
// its place among them or on the number of threads.
// x [tokens, columns], out [tokens, rows].
void Multiply(const PackedMatrix& weights, const float* x, size_t tokens, float* out,
              ThreadPool& pool, MatmulWorkspace& workspace);

}  // namespace kvant
