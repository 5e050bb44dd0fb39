#include "kvant/memory/plan_layout.h"

#include <algorithm>

#include "kvant/core/error.h"

namespace kvant {

namespace {

// The group of `layer`, made if it is the first of its kind.
uint32_t GroupFor(const KvFormat& format, uint64_t window, std::vector<GroupLayout>* groups) {
  const bool append = format.write == WriteMode::kAppend;
  for (uint32_t i = 0; i < groups->size(); ++i) {
    if ((*groups)[i].window_tokens == window && (*groups)[i].append == append) return i;
  }
  GroupLayout group;
  group.window_tokens = static_cast<uint32_t>(window);
  group.append = append;
  groups->push_back(group);
  return static_cast<uint32_t>(groups->size() - 1);
}

}  // namespace

PlanLayout MakePlanLayout(const KvPlan& plan, const KvGeometry& geometry,
                          const std::vector<uint64_t>& window_tokens) {
  KVANT_CHECK(plan.layers.size() == geometry.num_layers);
  KVANT_CHECK(window_tokens.size() == geometry.num_layers);
  PlanLayout layout;
  layout.plan = plan;
  uint32_t sink_tokens = 0;
  uint32_t recent_tokens = 0;
  for (const KvFormat& format : plan.layers) {
    sink_tokens = std::max(sink_tokens, format.sink_tokens);
    recent_tokens = std::max(recent_tokens, format.recent_tokens);
  }
  auto cache = std::make_shared<CacheLayout>();
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    KvFormat format = plan.layers[layer];
    if (format.write == WriteMode::kSealed) {
      format.sink_tokens = sink_tokens;
      format.recent_tokens = recent_tokens;
    }
    layout.layers.push_back(MakeLayerLayout(format, geometry.num_kv_heads, geometry.head_dim));
    const uint32_t index = GroupFor(format, window_tokens[layer], &cache->groups);
    GroupLayout& group = cache->groups[index];
    layout.group.push_back(index);
    layout.open_offset.push_back(group.open_block_bytes);
    layout.sealed_offset.push_back(group.sealed_block_bytes);
    group.layers.push_back(layer);
    group.open_block_bytes += layout.layers.back().open_bytes;
    group.sealed_block_bytes += layout.layers.back().sealed_bytes;
  }
  for (GroupLayout& group : cache->groups) {
    group.open_is_sealed = !group.append;
    for (const uint32_t layer : group.layers) {
      group.open_is_sealed = group.open_is_sealed && !IsQuantized(layout.layers[layer].format);
    }
    if (group.append) continue;
    group.sink_blocks = layout.layers[group.layers.front()].format.sink_blocks();
    group.recent_blocks = layout.layers[group.layers.front()].format.recent_blocks();
  }
  cache->plan_digest = PlanDigest(plan);
  layout.cache = std::move(cache);
  return layout;
}

double SealedBytesPerToken(const PlanLayout& layout) {
  double bytes = 0;
  for (const GroupLayout& group : layout.cache->groups) {
    bytes += static_cast<double>(group.sealed_block_bytes) / kBlockTokens;
  }
  return bytes;
}

}  // namespace kvant
