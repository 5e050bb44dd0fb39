// The three-group experiment: 16 bits, quantized with default scales, quantized with calibrated
// scales, and more groups, over divergence, retrieval, free running, speed and memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvant/engine/engine.h"
#include "kvant/experiment/experiment_config.h"
#include "kvant/experiment/work.h"
#include "kvant/store/store.h"

namespace kvant {

struct ExperimentProgress {
  std::string what;
  uint64_t done = 0;  // Work::units()
  uint64_t total = 0;
};

// The default groups for a model: bf16 (with the K bias removed where the model has one, and plain
// bf16 beside it), fp8_e4m3 at unit scale, fp8_e4m3 calibrated, int8, on hybrid models these three
// with sliding-window layers in 16 bits, fp32 as the floor, and int2 as the negative control.
std::vector<ExperimentGroup> DefaultGroups(const KvGeometry& geometry);

// Runs or resumes; every sample goes to `store` as it is made. Throws Error{kCancelled} when *stop
// becomes true; the same call goes on from there. Returns the run's id.
int64_t RunExperiment(const ExperimentConfig& config, Engine* engine, Store* store,
                      const std::atomic<bool>* stop,
                      const std::function<void(const ExperimentProgress&)>& progress);

// What a run will do and how long, without running more than a moment's probe.
struct Preflight {
  Work work;
  EngineSpeed speed;  // of this machine on this model, measured
  double estimated_seconds = 0;
  std::vector<std::string> lines;  // for people
};
Preflight CheckExperiment(const ExperimentConfig& config, Engine* engine);

// How long a run takes at a measured speed.
double EstimateSeconds(const ExperimentConfig& config, const KvGeometry& geometry,
                       const EngineSpeed& speed);

// Scales documents, haystacks and free runs, up or down, to the most whose estimate fits the budget
// and that the text allows; at least one of each stays. Returns the estimate, which is over the
// budget if even those do not fit.
double FitTimeBudget(double budget_seconds, ExperimentConfig* config, Engine* engine);

}  // namespace kvant
