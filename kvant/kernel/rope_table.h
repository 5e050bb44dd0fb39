// Cosines and sines of rotary position embedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvant/format/kv_format.h"

namespace kvant {

// angle(position, i) = position * inverse_frequency[i], i in [0, head_dim / 2).
struct RopeTable {
  uint32_t head_dim = 0;
  // true: pairs (2i, 2i+1), GGUF's `llama`; false: pairs (i, i + head_dim/2), all others.
  bool interleaved = false;
  std::vector<float> inverse_frequency;  // [head_dim / 2]
  std::vector<float> cosine;             // [positions, head_dim / 2]
  std::vector<float> sine;
  // [head_dim][kBlockTokens]: cosines (first head_dim/2 rows), then sines, of positions 0 … 63:
  // the part of a block's angles that is the same in every block.
  std::vector<float> within_block;

  uint64_t positions() const { return cosine.size() / inverse_frequency.size(); }
  std::span<const float> CosineAt(uint64_t position) const {
    return std::span(cosine).subspan(position * (head_dim / 2), head_dim / 2);
  }
  std::span<const float> SineAt(uint64_t position) const {
    return std::span(sine).subspan(position * (head_dim / 2), head_dim / 2);
  }
};

// Su et al. 2021: inverse_frequency[i] = base^(-2i / head_dim) / factor[i]. frequency_factors:
// empty, or [head_dim / 2] divisors as GGUF's `rope_freqs.weight` holds them (Llama 3). Angles
// are computed in double precision.
RopeTable MakeRopeTable(double base, std::span<const float> frequency_factors, uint32_t head_dim,
                        bool interleaved, uint64_t positions);

// Bytes that MakeRopeTable allocates.
uint64_t RopeTableBytes(uint32_t head_dim, uint64_t positions);

// Rotates one head's vector in place for `position`.
void ApplyRope(const RopeTable& table, uint64_t position, std::span<float> vector);

}  // namespace kvant
