// Attention that reads the quantized cache directly.
//
// softmax(q·Kᵀ·softmax_scale)·V over everything that the query's position sees (DESIGN section 3):
// its own and the recent and sink blocks in 16 bits, all earlier blocks as sealed; causal; within
// the sliding window if there is one. Online softmax per block; runs of kPartitionBlocks blocks
// are combined in order. A query's result depends only on its position, the cache and the
// instruction set: never on the batch, the number of threads or the chunk it came in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvant/core/thread_pool.h"
#include "kvant/kernel/kv_layout.h"

namespace kvant {

// One unit of work of a long sequence, in blocks: 1,024 tokens. Short enough that two threads
// share a sequence of 4K evenly, long enough that merging costs nothing.
inline constexpr uint64_t kPartitionBlocks = 16;

struct AttentionShape {
  uint32_t num_query_heads = 0;
  uint32_t num_kv_heads = 0;  // divides num_query_heads; at most 64 query heads each
  uint32_t head_dim = 0;      // a multiple of 16, at most 512
  float softmax_scale = 0;
  uint64_t window_tokens = 0;  // a query at p sees positions above p - window; 0: all
};

// Consecutive queries of one sequence.
struct AttentionQueries {
  LayerCache cache;
  uint64_t first_position = 0;
  size_t count = 0;
  const float* queries = nullptr;  // [count, num_query_heads, head_dim], after RoPE
  float* output = nullptr;         // [count, num_query_heads, head_dim]
};

// Buffers of one engine; sized once, so that memory is known before any request.
class AttentionWorkspace {
 public:
  // REQUIRES: no later call has a larger head_dim, more threads, or a sum over its sequences of
  // (query heads x partitions) above max_partials.
  AttentionWorkspace(uint32_t max_head_dim, size_t num_threads, size_t max_partials);
  static uint64_t Bytes(uint32_t max_head_dim, size_t num_threads, size_t max_partials);

  std::span<float> thread_buffer(size_t worker);
  std::span<float> partials() { return partials_; }

 private:
  size_t per_thread_ = 0;
  std::vector<float> threads_;
  std::vector<float> partials_;
};

// Partitions that a query at `position` reads.
uint64_t NumPartitions(const AttentionShape& shape, uint64_t position);

// One or many sequences, each with one or many queries; all blocks that the queries see must have
// been written (and sealed where they are seen sealed).
void Attend(const AttentionShape& shape, std::span<const AttentionQueries> sequences,
            ThreadPool& pool, AttentionWorkspace& workspace);

}  // namespace kvant
