// What the parts of a running experiment share.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "kvant/engine/engine.h"
#include "kvant/experiment/experiment_config.h"
#include "kvant/experiment/text_split.h"
#include "kvant/experiment/work.h"
#include "kvant/store/store.h"

namespace kvant {

struct RunGroup {
  ExperimentGroup group;
  PlanId plan = 0;
};

// The pool when most of it was in use.
struct PoolPeak {
  uint64_t used_bytes = 0;
  uint64_t fragmented_bytes = 0;
};

struct RunContext {
  const ExperimentConfig& config;
  Engine& engine;
  const TextSplit& text;
  Store& store;
  int64_t run = 0;
  std::vector<RunGroup> groups;  // the baseline first
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string& what, const Work& work)> worked;  // may be empty

  PoolPeak* pool_peak = nullptr;

  const RunGroup& baseline() const { return groups.front(); }
  bool Has(const std::string& key) const { return store.Has(run, key); }
  void Put(StoredSample sample) const { store.Put(run, sample); }
  void Worked(const std::string& what, const Work& work) const {
    if (worked) worked(what, work);
    const PoolUsage usage = engine.pool_usage();
    if (usage.used_bytes > pool_peak->used_bytes) {
      *pool_peak = {usage.used_bytes, usage.fragmented_bytes};
    }
  }
  // Throws Error{kCancelled} if the user asked to stop; everything measured so far is stored.
  void CheckStop() const;
};

}  // namespace kvant
