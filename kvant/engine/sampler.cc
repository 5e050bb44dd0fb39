#include "kvant/engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/kernel/vector_ops.h"

namespace kvant {

namespace {

void RequireRange(bool ok, const char* name, double value, const char* range) {
  if (ok) return;
  throw Error(ErrorCode::kUsage, fmt::format("{} = {} is out of range", name, value),
              fmt::format("{} must be {}", name, range));
}

struct Candidate {
  TokenId token;
  float logit;
};

bool MoreProbable(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Keeps the `count` most probable candidates, most probable first.
void KeepTop(std::vector<Candidate>* candidates, size_t count) {
  if (count < candidates->size()) {
    std::nth_element(candidates->begin(), candidates->begin() + static_cast<ptrdiff_t>(count),
                     candidates->end(), MoreProbable);
    candidates->resize(count);
  }
}

// The smallest set of most probable candidates whose probability reaches top_p. Looks at ever
// larger leading parts, so that a peaked distribution costs one small partial sort.
void KeepNucleus(std::vector<Candidate>* candidates, float top_p, float temperature) {
  float maximum = candidates->front().logit;
  for (const Candidate& c : *candidates) maximum = std::max(maximum, c.logit);
  double total = 0;
  for (const Candidate& c : *candidates) {
    total += std::exp(static_cast<double>(c.logit - maximum) / temperature);
  }
  size_t sorted = 0;
  double reached = 0;
  for (size_t part = 64;; part *= 4) {
    const size_t end = std::min(part, candidates->size());
    std::partial_sort(candidates->begin() + static_cast<ptrdiff_t>(sorted),
                      candidates->begin() + static_cast<ptrdiff_t>(end), candidates->end(),
                      MoreProbable);
    for (; sorted < end; ++sorted) {
      reached += std::exp(static_cast<double>((*candidates)[sorted].logit - maximum) / temperature);
      if (reached >= static_cast<double>(top_p) * total) {
        candidates->resize(sorted + 1);
        return;
      }
    }
    if (end == candidates->size()) return;
  }
}

}  // namespace

void ValidateSampling(const SamplingParameters& p, uint32_t vocabulary) {
  const auto finite = [](float x) { return std::isfinite(x); };
  RequireRange(finite(p.temperature) && p.temperature >= 0 && p.temperature <= 100, "temperature",
               p.temperature, "between 0 and 100");
  RequireRange(finite(p.top_p) && p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "in (0, 1]");
  RequireRange(finite(p.min_p) && p.min_p >= 0 && p.min_p < 1, "min_p", p.min_p, "in [0, 1)");
  RequireRange(
      finite(p.repetition_penalty) && p.repetition_penalty > 0 && p.repetition_penalty <= 100,
      "repetition_penalty", p.repetition_penalty, "in (0, 100]");
  RequireRange(finite(p.frequency_penalty) && std::fabs(p.frequency_penalty) <= 100,
               "frequency_penalty", p.frequency_penalty, "between -100 and 100");
  RequireRange(finite(p.presence_penalty) && std::fabs(p.presence_penalty) <= 100,
               "presence_penalty", p.presence_penalty, "between -100 and 100");
  for (const auto& [token, bias] : p.logit_bias) {
    RequireRange(token >= 0 && static_cast<uint32_t>(token) < vocabulary, "logit_bias token", token,
                 "inside the vocabulary");
    RequireRange(finite(bias), "logit_bias", bias, "finite");
  }
}

TokenId ArgMax(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
  }
  return static_cast<TokenId>(best);
}

SampledToken LogProbabilities(std::span<const float> logits, TokenId token, size_t top) {
  const float maximum = logits[static_cast<size_t>(ArgMax(logits))];
  const double log_sum =
      maximum + std::log(SumOfExponentials(logits.data(), logits.size(), maximum));
  SampledToken result;
  result.token = token;
  result.log_probability = static_cast<float>(logits[static_cast<size_t>(token)] - log_sum);
  if (top == 0) return result;
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {static_cast<TokenId>(i), logits[i]};
  }
  KeepTop(&candidates, top);
  std::sort(candidates.begin(), candidates.end(), MoreProbable);
  for (const Candidate& c : candidates) {
    result.top.push_back({c.token, static_cast<float>(c.logit - log_sum)});
  }
  return result;
}

Sampler::Sampler(SamplingParameters parameters, std::span<const TokenId> prompt)
    : parameters_(std::move(parameters)) {
  if (parameters_.repetition_penalty == 1) return;
  for (const TokenId token : prompt) ++prompt_counts_[token];
}

bool Sampler::HasPenalties() const {
  return parameters_.repetition_penalty != 1 || parameters_.frequency_penalty != 0 ||
         parameters_.presence_penalty != 0 || !parameters_.logit_bias.empty();
}

void Sampler::Accept(TokenId token) { ++output_counts_[token]; }

TokenId Sampler::Sample(std::span<const float> logits, uint64_t position) {
  std::span<const float> view = logits;
  if (HasPenalties()) {
    adjusted_.assign(logits.begin(), logits.end());
    const auto repeat = [this](TokenId token) {
      float& logit = adjusted_[static_cast<size_t>(token)];
      logit = logit > 0 ? logit / parameters_.repetition_penalty
                        : logit * parameters_.repetition_penalty;
    };
    for (const auto& [token, count] : prompt_counts_) repeat(token);
    for (const auto& [token, count] : output_counts_) {
      if (!prompt_counts_.contains(token)) repeat(token);
      adjusted_[static_cast<size_t>(token)] -=
          parameters_.frequency_penalty * static_cast<float>(count) + parameters_.presence_penalty;
    }
    for (const auto& [token, bias] : parameters_.logit_bias) {
      adjusted_[static_cast<size_t>(token)] += bias;
    }
    view = adjusted_;
  }
  const TokenId best = ArgMax(view);
  if (parameters_.temperature == 0) return best;

  // min_p bounds the logits from below, so it is applied while candidates are gathered.
  const float maximum = view[static_cast<size_t>(best)];
  const float lowest = parameters_.min_p > 0
                           ? maximum + parameters_.temperature * std::log(parameters_.min_p)
                           : -INFINITY;
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < view.size(); ++i) {
    if (view[i] >= lowest) candidates.push_back({static_cast<TokenId>(i), view[i]});
  }
  if (candidates.empty()) return best;  // every logit is NaN
  if (parameters_.top_k > 0) KeepTop(&candidates, parameters_.top_k);
  if (parameters_.top_p < 1) KeepNucleus(&candidates, parameters_.top_p, parameters_.temperature);

  double total = 0;
  for (const Candidate& c : candidates) {
    total += std::exp(static_cast<double>(c.logit - maximum) / parameters_.temperature);
  }
  const double draw =
      static_cast<double>(RandomAt(parameters_.seed, position) >> 11) * 0x1.0p-53 * total;
  double reached = 0;
  for (const Candidate& c : candidates) {
    reached += std::exp(static_cast<double>(c.logit - maximum) / parameters_.temperature);
    if (reached > draw) return c.token;
  }
  return candidates.back().token;
}

}  // namespace kvant
