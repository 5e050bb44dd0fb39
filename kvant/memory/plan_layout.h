// A plan applied to a model: which bytes each layer takes in a block, and which layers share
// blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvant/cache/cache_layout.h"
#include "kvant/format/kv_plan.h"
#include "kvant/kernel/kv_layout.h"

namespace kvant {

struct PlanLayout {
  KvPlan plan;
  std::vector<LayerLayout> layers;
  // Per layer: its group, and where it lies in that group's blocks.
  std::vector<uint32_t> group;
  std::vector<uint64_t> open_offset;
  std::vector<uint64_t> sealed_offset;
  std::shared_ptr<const CacheLayout> cache;
};

// window_tokens: per layer, 0 for full attention. Layers that keep the same tokens and are written
// the same way form one group. Sink and recent blocks are the largest that any layer of the plan
// asks for, and become every layer's.
PlanLayout MakePlanLayout(const KvPlan& plan, const KvGeometry& geometry,
                          const std::vector<uint64_t>& window_tokens);

// Bytes that one token costs in full blocks of all groups, sealed form: what `kvant inspect` and
// reports print beside what the pool really uses.
double SealedBytesPerToken(const PlanLayout& layout);

}  // namespace kvant
