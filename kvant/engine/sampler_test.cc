#include "kvant/engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {
namespace {

std::map<TokenId, double> Frequencies(const SamplingParameters& parameters,
                                      const std::vector<float>& logits, int draws) {
  Sampler sampler(parameters, {});
  std::map<TokenId, double> counts;
  for (int i = 0; i < draws; ++i) {
    counts[sampler.Sample(logits, static_cast<uint64_t>(i))] += 1.0 / draws;
  }
  return counts;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  Sampler sampler({}, {});
  EXPECT_EQ(sampler.Sample(std::vector<float>{0, 3, 3, 1}, 0), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{NAN, -5, NAN}, 0), 1);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  SamplingParameters parameters;
  parameters.temperature = 0.7F;
  const std::vector<float> logits = {1.0F, 0.2F, -0.5F, 2.0F};
  double total = 0;
  for (const float x : logits) total += std::exp(x / 0.7);
  const auto got = Frequencies(parameters, logits, 40000);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(got.at(static_cast<TokenId>(i)), std::exp(logits[i] / 0.7) / total, 0.01);
  }
}

TEST(Sampler, FiltersKeepWhatTheySay) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  SamplingParameters top_k;
  top_k.temperature = 1;
  top_k.top_k = 2;
  EXPECT_EQ(Frequencies(top_k, logits, 2000).size(), 2U);
  SamplingParameters top_p;
  top_p.temperature = 1;
  top_p.top_p = 0.79F;
  EXPECT_EQ(Frequencies(top_p, logits, 2000).size(), 2U);
  top_p.top_p = 0.81F;
  EXPECT_EQ(Frequencies(top_p, logits, 2000).size(), 3U);
  SamplingParameters min_p;
  min_p.temperature = 1;
  min_p.min_p = 0.25F;
  EXPECT_EQ(Frequencies(min_p, logits, 2000).size(), 3U);
}

TEST(Sampler, NucleusEqualsAFullSort) {
  Random random(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(1000);
    for (float& x : logits) x = static_cast<float>(random.Normal() * 3);
    SamplingParameters parameters;
    parameters.temperature = 1;
    parameters.top_p = 0.9F;
    // The reference: sort everything, add up until 0.9 is reached.
    std::vector<float> sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    double total = 0;
    for (const float x : sorted) total += std::exp(x);
    double reached = 0;
    float smallest = 0;
    for (const float x : sorted) {
      reached += std::exp(x);
      smallest = x;
      if (reached >= 0.9 * total) break;
    }
    for (const auto& [token, frequency] : Frequencies(parameters, logits, 500)) {
      EXPECT_GE(logits[static_cast<size_t>(token)], smallest - 1e-4F);
    }
  }
}

TEST(Sampler, PenaltiesAndBiasMoveLogits) {
  SamplingParameters parameters;
  parameters.repetition_penalty = 2;
  Sampler repeated(parameters, std::vector<TokenId>{0});
  EXPECT_EQ(repeated.Sample(std::vector<float>{3, 2}, 0), 1);
  SamplingParameters presence;
  presence.presence_penalty = 1.5F;
  Sampler sampler(presence, std::vector<TokenId>{0});
  EXPECT_EQ(sampler.Sample(std::vector<float>{3, 2}, 0), 0);
  sampler.Accept(0);
  EXPECT_EQ(sampler.Sample(std::vector<float>{3, 2}, 1), 1);
  SamplingParameters frequency;
  frequency.frequency_penalty = 0.6F;
  Sampler counting(frequency, {});
  counting.Accept(0);
  EXPECT_EQ(counting.Sample(std::vector<float>{3, 2}, 0), 0);
  counting.Accept(0);
  EXPECT_EQ(counting.Sample(std::vector<float>{3, 2}, 1), 1);
  SamplingParameters biased;
  biased.logit_bias[1] = 5;
  EXPECT_EQ(Sampler(biased, {}).Sample(std::vector<float>{3, 2}, 0), 1);
}

TEST(Sampler, TheDrawDependsOnSeedAndPositionOnly) {
  SamplingParameters parameters;
  parameters.temperature = 1;
  parameters.seed = 5;
  const std::vector<float> logits = {1, 1, 1, 1, 1, 1, 1, 1};
  Sampler a(parameters, {});
  Sampler b(parameters, {});
  b.Sample(logits, 3);
  EXPECT_EQ(a.Sample(logits, 9), b.Sample(logits, 9));
}

TEST(Sampler, LogProbabilitiesSumToOne) {
  const std::vector<float> logits = {1, 2, 3};
  const SampledToken result = LogProbabilities(logits, 0, 3);
  double sum = 0;
  for (const TokenLogProbability& p : result.top) sum += std::exp(p.log_probability);
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(result.top[0].token, 2);
  EXPECT_FLOAT_EQ(result.log_probability, result.top[2].log_probability);
}

TEST(Sampler, AbsurdParametersAreRefusedByName) {
  const auto refused = [](auto change) {
    SamplingParameters parameters;
    change(parameters);
    EXPECT_THROW(ValidateSampling(parameters, 10), Error);
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  refused([](auto& p) { p.temperature = -1; });
  refused([](auto& p) { p.temperature = NAN; });
  refused([](auto& p) { p.top_p = 0; });
  refused([](auto& p) { p.top_p = 1.5F; });
  refused([](auto& p) { p.min_p = 1; });
  refused([](auto& p) { p.repetition_penalty = 0; });
  refused([](auto& p) { p.frequency_penalty = kInf; });
  refused([](auto& p) { p.presence_penalty = NAN; });
  refused([](auto& p) { p.logit_bias[10] = 1; });
  refused([](auto& p) { p.logit_bias[-1] = 1; });
  refused([](auto& p) { p.logit_bias[1] = kInf; });
  EXPECT_NO_THROW(ValidateSampling({}, 10));
}

}  // namespace
}  // namespace kvant
