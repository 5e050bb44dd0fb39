// Retrieval by length and depth: one haystack carries a needle at every depth, and each is asked
// for by a suffix of its own, so that the haystack's prefill is shared.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kvant {

struct Needle {
  std::string key;    // "amber lighthouse"
  std::string value;  // five digits
  double depth = 0;   // 0 … 1, of the haystack's tokens
};

struct Haystack {
  std::string text;
  std::vector<Needle> needles;
};

struct NeedleOptions {
  uint64_t tokens = 2048;  // haystack, question and answer together
  uint64_t answer_tokens = 12;
  std::vector<double> depths = {0, 0.25, 0.5, 0.75, 1};
  uint64_t seed = 0;
};

using CountTokens = std::function<uint64_t(std::string_view)>;

// Sentences from our own grammar and word lists, a different text for every seed. The whole prompt
// of any question has at most options.tokens - options.answer_tokens tokens and is short of it by
// less than two sentences. Throws Error{kUsage} if the bucket cannot hold the needles.
Haystack MakeHaystack(const NeedleOptions& options, const CountTokens& count_tokens);

// The text to put behind the haystack: a question and the beginning of its answer, so that base
// models can complete it too.
std::string QuestionFor(const Needle& needle);

// Whether the first number in `answer` is the value, exactly.
bool AnswersNeedle(std::string_view answer, const Needle& needle);

}  // namespace kvant
