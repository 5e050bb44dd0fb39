// The unit of work of attention, and the buffers it is done in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kvant/kernel/attention.h"

namespace kvant {

// Query rows (queries x query heads of one KV head) that are worked on together.
inline constexpr size_t kMaxRows = 64;

// Consecutive queries of one sequence and one KV head, all within one block.
struct AttentionTile {
  const AttentionQueries* sequence;
  uint32_t kv_head;
  size_t first_query;
  size_t num_queries;
};

// Running softmax of a tile's rows over some blocks.
struct SoftmaxState {
  float* maximum;  // [rows]
  float* sum;      // [rows]
  float* output;   // [rows, head_dim], not yet divided by sum
};

// One thread's buffers, all [kMaxRows, max(head_dim, 64)] unless said otherwise.
struct TileBuffers {
  float* query;          // times softmax_scale
  float* rotated_query;  // the same after Hadamard, if K has it
  float* bias_angles;    // [rows, head_dim] cosine and sine coefficients of q · RoPE(bias)
  float* scratch;        // queries times channel scales, or probabilities times token scales
  float* scores;         // [rows, 64]
  float* sealed_output;  // output of sealed blocks in V's rotated space, if V has Hadamard
  float* temporary;
  float* output;   // the partition's
  float* total;    // the tile's
  float* scale;    // [max(head_dim, 64) ]
  float* offset;   // [max(head_dim, 64)]
  float* row_sum;  // [kMaxRows] sum of the query's elements
  float* rotated_row_sum;
  float* maximum;
  float* sum;
  float* total_maximum;
  float* total_sum;
};

inline size_t TileBufferFloats(size_t head_dim) {
  const size_t width = std::max<size_t>(head_dim, kBlockTokens);
  return 9 * kMaxRows * width + 2 * width + 6 * kMaxRows;
}

inline TileBuffers SplitTileBuffer(float* memory, size_t head_dim) {
  const size_t width = std::max<size_t>(head_dim, kBlockTokens);
  auto take = [&memory](size_t floats) {
    float* part = memory;
    memory += floats;
    return part;
  };
  TileBuffers b{};
  for (float** matrix : {&b.query, &b.rotated_query, &b.bias_angles, &b.scratch, &b.scores,
                         &b.sealed_output, &b.temporary, &b.output, &b.total}) {
    *matrix = take(kMaxRows * width);
  }
  b.scale = take(width);
  b.offset = take(width);
  for (float** rows :
       {&b.row_sum, &b.rotated_row_sum, &b.maximum, &b.sum, &b.total_maximum, &b.total_sum}) {
    *rows = take(kMaxRows);
  }
  return b;
}

// What one item of work knows throughout.
struct TileContext {
  const AttentionShape& shape;
  const AttentionTile& tile;
  const TileBuffers& buffers;
  size_t group;  // query heads per KV head
  size_t rows;
  uint64_t first_position;
  uint64_t query_block;
};

inline uint64_t PositionOfRow(const TileContext& c, size_t row) {
  return c.first_position + row / c.group;
}

}  // namespace kvant
