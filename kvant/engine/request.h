// What is asked of the engine, and what comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/engine/sampler.h"

namespace kvant {

using PlanId = uint32_t;
using RequestId = uint64_t;

struct Request {
  std::vector<TokenId> prompt;
  PlanId plan = 0;
  SamplingParameters sampling;
  uint32_t max_new_tokens = 16;
  bool ignore_end_of_text = false;
  std::vector<TokenId> stop_tokens;
  std::vector<std::string> stop_strings;  // the output ends before the first of them
  bool log_probabilities = false;
  uint32_t top_log_probabilities = 0;
  bool prompt_log_probabilities = false;
  // Take blocks of an equal prefix from earlier requests with the same plan and salt.
  bool reuse_prefix = true;
  std::string salt;
};

enum class FinishReason { kStop, kLength, kCancelled };
std::string_view FinishReasonName(FinishReason reason);

struct TokenEvent {
  RequestId request = 0;
  TokenId token = 0;
  std::string_view text;  // valid UTF-8; may be empty while a character is incomplete
};

struct Completion {
  RequestId request = 0;
  std::vector<TokenId> tokens;
  std::string text;
  FinishReason finish = FinishReason::kLength;
  std::vector<SampledToken> log_probabilities;         // of each token, if asked
  std::vector<SampledToken> prompt_log_probabilities;  // of prompt[1:], if asked
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of the prompt, taken from the prefix index
  // Seconds on the engine's clock.
  double submitted_s = 0;
  double admitted_s = 0;
  double first_token_s = 0;
  double finished_s = 0;
};

struct RequestCallbacks {
  std::function<void(const TokenEvent&)> on_token;       // may be empty
  std::function<void(const Completion&)> on_completion;  // may be empty
};

}  // namespace kvant
