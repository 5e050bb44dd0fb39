// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

struct SamplingParameters {
  float temperature = 0;         // 0: greedy
  uint32_t top_k = 0;            // 0: all
  float top_p = 1;               // (0, 1]
  float min_p = 0;               // [0, 1): of the most probable token's probability
  float repetition_penalty = 1;  // > 0; on tokens of the prompt and the output
  float frequency_penalty = 0;   // on tokens of the output, per occurrence
  float presence_penalty = 0;    // on tokens of the output, once
  std::map<TokenId, float> logit_bias;
  uint64_t seed = 0;
};

// Throws Error{kUsage} naming the parameter that is out of range or not a number, or a biased
// token outside the vocabulary.
void ValidateSampling(const SamplingParameters& parameters, uint32_t vocabulary);

struct TokenLogProbability {
  TokenId token = 0;
  float log_probability = 0;
};

struct SampledToken {
  TokenId token = 0;
  // Under the model's own distribution, before temperature, penalties and filters.
  float log_probability = 0;
  std::vector<TokenLogProbability> top;  // most probable first
};

// log softmax of one row, of `token` and the `top` most probable tokens (ties: lowest id first).
SampledToken LogProbabilities(std::span<const float> logits, TokenId token, size_t top);

// Index of the largest logit; the lowest id of equals. NaN never wins.
TokenId ArgMax(std::span<const float> logits);

// The token histories that penalties look at.
class Sampler {
 public:
  Sampler(SamplingParameters parameters, std::span<const TokenId> prompt);

  // `position` keys the random draw: the same seed, position and logits give the same token,
  // whatever ran before. logits [vocabulary] are not changed. Never sorts the vocabulary.
  TokenId Sample(std::span<const float> logits, uint64_t position);

  // Adds a token of the output to the history.
  void Accept(TokenId token);

 private:
  bool HasPenalties() const;

  SamplingParameters parameters_;
  std::map<TokenId, uint32_t> output_counts_;
  std::map<TokenId, uint32_t> prompt_counts_;
  std::vector<float> adjusted_;
};

}  // namespace kvant
