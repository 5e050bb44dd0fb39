// How much an experiment has to do, and how long that takes here.
#pragma once

#include <cstdint>

#include "kvant/engine/engine.h"

namespace kvant {

// Tokens that models run over, by what each costs.
struct Work {
  uint64_t prefilled = 0;  // many at once, without logits
  uint64_t scored = 0;     // many at once, with logits and their divergence
  uint64_t decoded = 0;    // one by one, with logits

  Work& operator+=(const Work& other);
  uint64_t tokens() const { return prefilled + scored + decoded; }
  // For progress only, where no machine has been measured: prefilled tokens that take about as
  // long.
  uint64_t units() const { return prefilled + 2 * scored + 10 * decoded; }
};

// Seconds for each token.
struct EngineSpeed {
  double prefilled = 0;
  double scored = 0;
  double decoded = 0;
};

// Runs a few hundred tokens on a bf16 cache.
EngineSpeed MeasureSpeed(Engine* engine);

double SecondsFor(const Work& work, const EngineSpeed& speed);

}  // namespace kvant
