// A format for every layer of one model: the identity of everything that is stored or measured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/sha256.h"
#include "kvant/format/kv_format.h"
#include "kvant/format/scale_set.h"

namespace kvant {

// What a plan must know of a model.
struct KvGeometry {
  uint32_t num_layers = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  std::vector<bool> sliding_window;  // per layer; empty: none
  std::vector<bool> has_k_bias;      // per layer; empty: none
};

struct KvPlan {
  std::string name;  // as the user wrote it, for people
  std::vector<KvFormat> layers;
  std::shared_ptr<const ScaleSet> scales;  // null if no layer needs static scales

  const KvFormat& layer(size_t index) const { return layers[index]; }
};

// Builds a plan from text: a format, and optionally `skip=` layers kept as bf16, as in
// `fp8_e4m3,skip=0,1,4-7,sliding_window` (docs/formats.md). Throws Error{kUsage} on a bad format,
// a layer out of range, `bias_removed` on a layer without K bias, a static scale without scales;
// Error{kInvalidInput} if `scales` does not fit the geometry, granularity or codec.
KvPlan MakeKvPlan(std::string_view text, const KvGeometry& geometry,
                  std::shared_ptr<const ScaleSet> scales = nullptr);

// SHA-256 over every layer's canonical format, the Hadamard matrix's identity and the scales. Two
// plans with different digests never share a block.
Digest PlanDigest(const KvPlan& plan);

// One line per distinct format with the layers that use it, for logs and reports.
std::string DescribePlan(const KvPlan& plan);

}  // namespace kvant
