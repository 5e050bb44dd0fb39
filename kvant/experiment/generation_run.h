// Samples of what groups generate: needles, free running, speed.
#pragma once

#include "kvant/experiment/run_context.h"

namespace kvant {

// Kind "needle", per group, bucket, haystack and depth: payload {haystack, depth, key, value,
// answer, right, cached_tokens}. The haystack's prefill is shared by its questions.
void RunNeedles(const RunContext& context);
// Throws Error{kUsage} if the shortest bucket cannot hold the needles.
void CheckNeedles(const ExperimentConfig& config, const Engine& engine);
Work NeedleWork(const ExperimentConfig& config);

// Kind "free_run", per group and prompt: payload {prompt, tokens, agreement, period, copies,
// finish, text}. Greedy, never stopped by an end of text before the baseline stops.
void RunFreeRuns(const RunContext& context);
Work FreeRunWork(const ExperimentConfig& config);

// Kind "speed", per group: payload {ttft: [{tokens, ms}], tpot: [{context, ms, low, high}]}: TPOT
// is the median time between tokens, low and high its quartiles.
void RunSpeed(const RunContext& context);
Work SpeedWork(const ExperimentConfig& config);

}  // namespace kvant
