#include "kvant/kernel/matmul.h"

#include <algorithm>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: compiled once per target.
#include "kvant/kernel/dequantize-inl.h"

#ifndef KVANT_KERNEL_MATMUL_ONCE_
#define KVANT_KERNEL_MATMUL_ONCE_
namespace kvant {

// Weight rows of one panel: a whole number of strips on every instruction set, and a divisor of
// the layers of the models we know.
inline constexpr size_t kPanelRows = 48;
// Columns decoded at once: one block of the K types. A panel of 48 KiB stays in the L2 cache, and
// a strip of 8-lane vectors (24 KiB) in the L1 cache.
inline constexpr size_t kPanelColumns = 256;
// Tokens for which a panel is decoded: enough that decoding costs a few percent, few enough that
// small matrices still give work to many threads.
inline constexpr size_t kTokensPerTask = 256;
// Rows decoded before they are transposed into the panel.
inline constexpr size_t kDecodeRows = 4;

struct MatmulTask {
  size_t first_row;
  size_t first_token;
  size_t end_token;
};

}  // namespace kvant
#endif  // KVANT_KERNEL_MATMUL_ONCE_

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

// The micro-kernel keeps kTileTokens x kStripVectors vectors of outputs in registers, beside one
// column of the strip and one broadcast activation: 4 · 3 + 3 + 1 = 16 registers with AVX2,
// 8 · 3 + 3 + 1 = 28 of 32 with AVX-512.
constexpr size_t kStripVectors = 3;
constexpr size_t kStripRows = kStripVectors * kLanes;
constexpr size_t kTileTokens = kLanes == 16 ? 8 : 4;
static_assert(kPanelRows % kStripRows == 0);

// The panel's place for row `row` of column 0.
HWY_INLINE float* PanelRow(float* panel, size_t row) {
  return panel + row / kStripRows * kStripRows * kPanelColumns + row % kStripRows;
}

// Four decoded rows [4][kPanelColumns] to rows row … row + 3 of the panel.
HWY_INLINE void PlaceRows(const float* decoded, size_t row, size_t columns, float* panel) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t i = 0; i < 4; ++i) {
    float* to = PanelRow(panel, row + i);
    for (size_t column = 0; column < columns; ++column) {
      to[column * kStripRows] = decoded[i * kPanelColumns + column];
    }
  }
#else
  // Transposed in 4 x 4 squares; columns are rounded up to 4, which `decoded` has.
  static_assert(kStripRows % 4 == 0);
  const hn::Full128<float> d;
  for (size_t column = 0; column < columns; column += 4) {
    const auto a = hn::LoadU(d, decoded + column);
    const auto b = hn::LoadU(d, decoded + kPanelColumns + column);
    const auto c = hn::LoadU(d, decoded + 2 * kPanelColumns + column);
    const auto e = hn::LoadU(d, decoded + 3 * kPanelColumns + column);
    const auto ac_low = hn::InterleaveLower(d, a, c);
    const auto be_low = hn::InterleaveLower(d, b, e);
    const auto ac_high = hn::InterleaveUpper(d, a, c);
    const auto be_high = hn::InterleaveUpper(d, b, e);
    float* to = PanelRow(panel, row) + column * kStripRows;
    hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, to);
    hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, to + kStripRows);
    hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * kStripRows);
    hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * kStripRows);
  }
#endif
}

// Weights [kPanelRows, columns] from `bytes` on (rows beyond `rows` as zeros) to
// panel [strip][columns][kStripRows]. `decoded` holds kDecodeRows * kPanelColumns floats.
template <typename Block>
HWY_INLINE void DecodePanel(const uint8_t* bytes, uint64_t row_bytes, size_t rows, size_t columns,
                            float* decoded, float* panel) {
  for (size_t row = 0; row < kPanelRows; row += kDecodeRows) {
    for (size_t i = 0; i < kDecodeRows; ++i) {
      float* to = decoded + i * kPanelColumns;
      if (row + i < rows) {
        DecodeToMemory<Block>(bytes + (row + i) * row_bytes, columns, to);
      } else {
        std::fill_n(to, kPanelColumns, 0.0F);
      }
    }
    PlaceRows(decoded, row, columns, panel);
  }
}

// Where the micro-kernel reads and writes; pointers are at the tile's first token.
struct Tile {
  const float* strip;  // [columns][kStripRows]
  const float* x;
  size_t x_stride;
  size_t columns;
  bool first_columns;  // out is written, not added to
  float* out;
  size_t out_stride;
  size_t rows;  // of the strip that exist
};

HWY_INLINE FloatVec LoadOutput(const float* out, size_t vector, size_t rows) {
  const FloatTag d;
  if (rows == kStripRows) return hn::LoadU(d, out + vector * kLanes);
  if (vector * kLanes >= rows) return hn::Zero(d);
  const size_t present = std::min(kLanes, rows - vector * kLanes);
  return hn::MaskedLoad(hn::FirstN(d, present), d, out + vector * kLanes);
}

HWY_INLINE void StoreOutput(FloatVec value, size_t vector, size_t rows, float* out) {
  const FloatTag d;
  if (rows == kStripRows) return hn::StoreU(value, d, out + vector * kLanes);
  if (vector * kLanes >= rows) return;
  const size_t present = std::min(kLanes, rows - vector * kLanes);
  hn::BlendedStore(value, hn::FirstN(d, present), d, out + vector * kLanes);
}

template <size_t kTokens>
HWY_INLINE void MultiplyTile(const Tile& tile, size_t token) {
  const FloatTag d;
  FloatVec sums[kTokens][kStripVectors];
  const float* x = tile.x + token * tile.x_stride;
  float* out = tile.out + token * tile.out_stride;
  Unroll<kTokens * kStripVectors>([&](auto i) HWY_ATTR {
    constexpr size_t kToken = i / kStripVectors;
    constexpr size_t kVector = i % kStripVectors;
    sums[kToken][kVector] = tile.first_columns
                                ? hn::Zero(d)
                                : LoadOutput(out + kToken * tile.out_stride, kVector, tile.rows);
  });
  const float* strip = tile.strip;
  for (size_t column = 0; column < tile.columns; ++column) {
    FloatVec w[kStripVectors];
    Unroll<kStripVectors>([&](auto v) HWY_ATTR { w[v] = hn::Load(d, strip + v * kLanes); });
    Unroll<kTokens>([&](auto t) HWY_ATTR {
      const FloatVec value = hn::Set(d, x[t * tile.x_stride + column]);
      Unroll<kStripVectors>([&](auto v)
                                HWY_ATTR { sums[t][v] = hn::MulAdd(w[v], value, sums[t][v]); });
    });
    strip += kStripRows;
  }
  Unroll<kTokens * kStripVectors>([&](auto i) HWY_ATTR {
    constexpr size_t kToken = i / kStripVectors;
    constexpr size_t kVector = i % kStripVectors;
    StoreOutput(sums[kToken][kVector], kVector, tile.rows, out + kToken * tile.out_stride);
  });
}

HWY_INLINE void MultiplyStrip(const Tile& tile, size_t tokens) {
  size_t token = 0;
  for (; token + kTileTokens <= tokens; token += kTileTokens) {
    MultiplyTile<kTileTokens>(tile, token);
  }
  for (; token < tokens; ++token) MultiplyTile<1>(tile, token);
}

void MultiplyTaskForTarget(const PackedMatrix& w, const float* x, const MatmulTask& task,
                           float* out, float* buffer) {
  float* panel = buffer;
  float* decoded = buffer + kPanelRows * kPanelColumns;
  const size_t rows = std::min<size_t>(kPanelRows, w.rows - task.first_row);
  const uint64_t row_bytes = w.row_bytes();
  const size_t tokens = task.end_token - task.first_token;
  for (size_t column = 0; column < w.columns; column += kPanelColumns) {
    const size_t columns = std::min<size_t>(kPanelColumns, w.columns - column);
    const uint64_t skipped = column / WeightBlockElements(w.type) * WeightBlockBytes(w.type);
    const uint8_t* bytes = w.data + task.first_row * row_bytes + skipped;
    WithWeightBlock(w.type, [&](auto block) HWY_ATTR {
      DecodePanel<decltype(block)>(bytes, row_bytes, rows, columns, decoded, panel);
    });
    for (size_t row = 0; row < rows; row += kStripRows) {
      const Tile tile = {panel + row * kPanelColumns,
                         x + task.first_token * w.columns + column,
                         w.columns,
                         columns,
                         column == 0,
                         out + task.first_token * w.rows + task.first_row + row,
                         w.rows,
                         std::min(kStripRows, rows - row)};
      MultiplyStrip(tile, tokens);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(MultiplyTaskForTarget);

namespace {
constexpr size_t kBufferFloats = (kPanelRows + kDecodeRows) * kPanelColumns;
}  // namespace

MatmulWorkspace::MatmulWorkspace(size_t num_threads) {
  for (size_t i = 0; i < num_threads; ++i) {
    buffers_.push_back(hwy::AllocateAligned<float>(kBufferFloats));
    if (buffers_.back() == nullptr) {
      throw Error(ErrorCode::kOverBudget,
                  "out of memory: " + FormatBytes(MatmulWorkspaceBytes(num_threads)) +
                      " of matrix buffers cannot be allocated",
                  "close other programs");
    }
  }
}

uint64_t MatmulWorkspaceBytes(size_t num_threads) {
  return num_threads * kBufferFloats * sizeof(float);
}

void Multiply(const PackedMatrix& weights, const float* x, size_t tokens, float* out,
              ThreadPool& pool, MatmulWorkspace& workspace) {
  KVANT_CHECK(weights.columns % WeightBlockElements(weights.type) == 0);
  KVANT_CHECK(workspace.num_threads() >= pool.num_threads());
  const size_t panels = DivideRoundUp(weights.rows, kPanelRows);
  const size_t groups = DivideRoundUp(tokens, kTokensPerTask);
  pool.ParallelFor(panels * groups, [&](size_t index, size_t worker) {
    const size_t first_token = index / panels * kTokensPerTask;
    const MatmulTask task = {index % panels * kPanelRows, first_token,
                             std::min(first_token + kTokensPerTask, tokens)};
    HWY_DYNAMIC_DISPATCH(MultiplyTaskForTarget)(weights, x, task, out, workspace.buffer(worker));
  });
}

}  // namespace kvant
#endif
