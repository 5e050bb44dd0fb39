// What the cache must know of a plan on a model: how many bytes a block of each layer group has,
// and how long it lives.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/core/sha256.h"

namespace kvant {

// The layers that keep the same tokens: all full-attention layers, or all with one sliding window.
struct GroupLayout {
  std::vector<uint32_t> layers;
  // A query at p sees positions above p - window_tokens; 0: all.
  uint32_t window_tokens = 0;
  // One block of 64 tokens, all layers of the group. With `append` open_block_bytes is not used.
  uint64_t open_block_bytes = 0;
  uint64_t sealed_block_bytes = 0;
  // Tokens are quantized as they arrive: there is only the sealed form.
  bool append = false;
  // All layers are kept in 16 or 32 bits: sealing hands the open block over without a copy.
  // REQUIRES: both forms have the same bytes.
  bool open_is_sealed = false;
  // The first blocks of a sequence, and the last ones besides the current one, that stay open.
  uint32_t sink_blocks = 0;
  uint32_t recent_blocks = 0;

  // Whether a block changes its form at all.
  bool seals() const { return !append && !open_is_sealed; }
};

struct CacheLayout {
  std::vector<GroupLayout> groups;
  Digest plan_digest{};
};

}  // namespace kvant
