// Static scales of a model's K and V, and where they came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/core/sha256.h"
#include "kvant/format/kv_format.h"

namespace kvant {

// value ≈ code * scale. Sizes by granularity: kTensor 1, kHead num_kv_heads, kChannel
// num_kv_heads * head_dim (head-major).
struct LayerScales {
  std::vector<float> k;
  std::vector<float> v;

  bool operator==(const LayerScales&) const = default;
};

struct ScaleSet {
  Codec codec = Codec::kFp8E4m3;  // the codec that the scales were made for
  Granularity granularity = Granularity::kTensor;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  std::vector<LayerScales> layers;

  bool operator==(const ScaleSet&) const = default;
};

// Throws Error{kInvalidInput} naming the layer and value unless every layer has scales of the
// right shape, all finite, positive and within [2^-40, 2^40].
void ValidateScaleSet(const ScaleSet& scales, const std::string& source);

Digest ScaleSetDigest(const ScaleSet& scales);

}  // namespace kvant
