// The slow, obvious reader of a block: what its bytes mean, in float64. For tests and inspection.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/kernel/kv_layout.h"

namespace kvant {

struct BlockValues {
  std::vector<double> k;  // [kBlockTokens, head_dim], RoPE'd, bias and mean added back, unrotated
  std::vector<double> v;  // [kBlockTokens, head_dim]
};

// Reads one KV head of one block, in its 16-bit form (`open`) or its sealed form.
// REQUIRES: the form exists.
BlockValues ReadBack(const LayerCache& cache, uint64_t block, uint32_t head, bool open);

}  // namespace kvant
