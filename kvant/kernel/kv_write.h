// Writing the cache: tokens into open (or append) blocks, and sealing full blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvant/format/reference_codec.h"
#include "kvant/kernel/kv_layout.h"

namespace kvant {

// What one layer's K and V met while they were written and sealed.
struct LayerCounts {
  QuantizeCounts k;
  QuantizeCounts v;
};

void AddCounts(const QuantizeCounts& from, QuantizeCounts* to);
void AddCounts(const LayerCounts& from, LayerCounts* to);

// Working memory of one thread; grows to a bound that KvWriteScratchBytes states.
struct KvWriteScratch {
  std::vector<float> values;   // [head_dim][kBlockTokens]
  std::vector<float> column;   // [head_dim]
  std::vector<uint8_t> codes;  // [head_dim][kBlockTokens]
};
uint64_t KvWriteScratchBytes(uint32_t head_dim);

// Writes K and V of `count` tokens of one KV head, at positions first_position …, into the blocks'
// 16-bit forms, or into the sealed forms of a format with write=append. k and v: the head's
// vectors, `token_stride` floats apart, after RoPE.
// NaN is stored as 0, infinities and numbers beyond kLargestUsable as ±kOverflowReplacement; both
// are counted.
// REQUIRES: the blocks exist; positions are written in order, each once.
void WriteTokens(const LayerCache& cache, uint32_t head, uint64_t first_position, size_t count,
                 const float* k, const float* v, size_t token_stride, KvWriteScratch* scratch,
                 LayerCounts* counts);

// Quantizes a full block of one KV head from its 16-bit form into its sealed form, in one pass.
// REQUIRES: a format with write=sealed, both forms exist and are different memory.
void SealBlock(const LayerCache& cache, uint64_t block, uint32_t head, KvWriteScratch* scratch,
               LayerCounts* counts);

}  // namespace kvant
