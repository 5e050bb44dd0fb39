#include "kvant/kernel/matmul.h"

#include <dnnl.h>

#include <algorithm>
#include <cstring>

#include "kvant/core/error.h"
#include "kvant/kernel/dequantize.h"

// From the OpenMP runtime that oneDNN links; omp.h itself comes with some compilers only.
extern "C" void omp_set_num_threads(int num_threads);

namespace kvant {

namespace {

// Outputs of one panel: decoded weights (columns x 64 floats) stay in the L2 cache.
constexpr size_t kPanelRows = 64;
// Rows of one call to oneDNN.
constexpr size_t kRowTile = 64;

void MultiplyTile(const float* x, const float* panel, size_t columns, float* out,
                  size_t out_stride) {
  const auto k = static_cast<dnnl_dim_t>(columns);
  const dnnl_status_t status =
      dnnl_sgemm('N', 'T', kRowTile, kPanelRows, k, 1.0F, x, k, panel, k, 0.0F, out,
                 static_cast<dnnl_dim_t>(out_stride));
  KVANT_CHECK(status == dnnl_success);
}

void MultiplyPanel(const PackedMatrix& w, size_t first_row, const float* x, size_t tokens,
                   float* out, MatmulWorkspace::Buffers* buffers) {
  const size_t columns = w.columns;
  const size_t rows = std::min<size_t>(kPanelRows, w.rows - first_row);
  buffers->panel.resize(kPanelRows * columns);
  buffers->input.resize(kRowTile * columns);
  buffers->output.resize(kRowTile * kPanelRows);
  for (size_t r = 0; r < rows; ++r) {
    DequantizeRow(w.type, w.data + (first_row + r) * w.row_bytes(), columns,
                  buffers->panel.data() + r * columns);
  }
  std::fill(buffers->panel.begin() + static_cast<ptrdiff_t>(rows * columns),
            buffers->panel.begin() + static_cast<ptrdiff_t>(kPanelRows * columns), 0.0F);
  for (size_t token = 0; token < tokens; token += kRowTile) {
    const size_t count = std::min(kRowTile, tokens - token);
    const float* input = x + token * columns;
    if (count < kRowTile) {
      std::copy_n(input, count * columns, buffers->input.data());
      std::fill(buffers->input.begin() + static_cast<ptrdiff_t>(count * columns),
                buffers->input.begin() + static_cast<ptrdiff_t>(kRowTile * columns), 0.0F);
      input = buffers->input.data();
    }
    // Always into the same buffer: a call's leading dimension is part of its shape.
    MultiplyTile(input, buffers->panel.data(), columns, buffers->output.data(), kPanelRows);
    for (size_t t = 0; t < count; ++t) {
      std::memcpy(out + (token + t) * w.rows + first_row,
                  buffers->output.data() + t * kPanelRows, rows * sizeof(float));
    }
  }
}

}  // namespace

MatmulWorkspace::MatmulWorkspace(size_t num_threads) : buffers_(num_threads) {}

uint64_t MatmulWorkspaceBytes(size_t num_threads, uint64_t max_columns) {
  return num_threads * sizeof(float) *
         (kPanelRows * max_columns + kRowTile * max_columns + kRowTile * kPanelRows);
}

void Multiply(const PackedMatrix& weights, const float* x, size_t tokens, float* out,
              ThreadPool& pool, MatmulWorkspace& workspace) {
  const size_t panels = (weights.rows + kPanelRows - 1) / kPanelRows;
  pool.ParallelFor(panels, [&](size_t panel, size_t worker) {
    // Our threads divide the work: oneDNN's own OpenMP team stays at one.
    omp_set_num_threads(1);
    MultiplyPanel(weights, panel * kPanelRows, x, tokens, out, &workspace.buffers(worker));
  });
}

}  // namespace kvant
