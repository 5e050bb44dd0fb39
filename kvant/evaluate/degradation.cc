#include "kvant/evaluate/degradation.h"

#include <algorithm>

namespace kvant {

uint64_t AgreementLength(std::span<const int32_t> baseline, std::span<const int32_t> candidate) {
  const size_t shorter = std::min(baseline.size(), candidate.size());
  for (size_t i = 0; i < shorter; ++i) {
    if (baseline[i] != candidate[i]) return i;
  }
  return shorter;
}

Repetition TailRepetition(std::span<const int32_t> tokens, uint64_t max_period, uint64_t min_copies,
                          uint64_t min_tokens) {
  for (uint64_t period = 1; period <= max_period && period * min_copies <= tokens.size();
       ++period) {
    // How far back each token equals the one a period later.
    uint64_t matching = 0;
    while (matching + period < tokens.size() &&
           tokens[tokens.size() - 1 - matching] == tokens[tokens.size() - 1 - matching - period]) {
      ++matching;
    }
    const uint64_t copies = matching / period + 1;
    if (copies >= min_copies && copies * period >= min_tokens) return {period, copies};
  }
  return {};
}

}  // namespace kvant
