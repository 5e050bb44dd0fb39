// Where the bytes of one process go: the one function that the engine admits by and that
// predictions are made with.
#pragma once

#include <cstdint>
#include <string>

#include "kvant/cache/cache_layout.h"

namespace kvant {

struct MemoryBudget {
  uint64_t total = 0;      // what the user allows
  uint64_t weights = 0;    // packed weights and float vectors
  uint64_t workspace = 0;  // activations, attention partials, RoPE tables
  uint64_t logits = 0;     // output rows
  uint64_t tokenizer = 0;  // vocabulary and merges, estimated
  uint64_t pool = 0;       // what is left for the KV cache
};

struct FixedBytes {
  uint64_t weights = 0;
  uint64_t workspace = 0;
  uint64_t logits = 0;
  uint64_t tokenizer = 0;
};

// total - fixed parts = pool. Throws Error{kOverBudget} with the arithmetic when the fixed parts
// leave nothing, or leave less than `smallest_pool`.
MemoryBudget MakeMemoryBudget(uint64_t total, const FixedBytes& fixed, uint64_t smallest_pool);

// "2.00 GiB = weights 94 MiB + workspace … + KV pool …"
std::string DescribeBudget(const MemoryBudget& budget);

// How many sequences of `tokens` tokens of one plan fit a pool at once, growing by steps of at most
// `chunk_tokens`, one sequence at a time.
uint64_t SequencesThatFit(const CacheLayout& layout, uint64_t pool_bytes, uint64_t tokens,
                          uint64_t chunk_tokens);

}  // namespace kvant
