// Signs that a free-running output has gone wrong.
#pragma once

#include <cstdint>
#include <span>

namespace kvant {

// Tokens from the start on which two outputs agree.
uint64_t AgreementLength(std::span<const int32_t> baseline, std::span<const int32_t> candidate);

struct Repetition {
  uint64_t period = 0;  // 0: the tail does not repeat
  uint64_t copies = 0;
};

// Whether the tokens end in at least `min_copies` copies of one pattern of at most `max_period`
// tokens that cover at least `min_tokens`: the shortest such period. Linear in the tail's length
// times max_period.
Repetition TailRepetition(std::span<const int32_t> tokens, uint64_t max_period = 64,
                          uint64_t min_copies = 3, uint64_t min_tokens = 24);

}  // namespace kvant
