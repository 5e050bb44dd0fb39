#include "kvant/evaluate/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kvant/core/random.h"

namespace kvant {
namespace {

TEST(Divergence, EqualLogitsDivergeByNothing) {
  const std::vector<float> logits = {1, -2, 0.5F, 3};
  const PositionDivergence d = Diverge(logits, logits, 2);
  EXPECT_EQ(d.kld, 0);
  EXPECT_TRUE(d.same_top1);
  EXPECT_EQ(d.log_p_baseline, d.log_p_candidate);
}

TEST(Divergence, MatchesTheDefinition) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> p(100);
    std::vector<float> q(100);
    for (size_t i = 0; i < 100; ++i) {
      p[i] = static_cast<float>(random.Normal() * 4);
      q[i] = p[i] + static_cast<float>(random.Normal() * 0.3);
    }
    double p_sum = 0;
    double q_sum = 0;
    for (size_t i = 0; i < 100; ++i) {
      p_sum += std::exp(static_cast<double>(p[i]));
      q_sum += std::exp(static_cast<double>(q[i]));
    }
    double kld = 0;
    for (size_t i = 0; i < 100; ++i) {
      const double a = std::exp(static_cast<double>(p[i])) / p_sum;
      kld += a * std::log(a / (std::exp(static_cast<double>(q[i])) / q_sum));
    }
    const PositionDivergence d = Diverge(p, q, 7);
    EXPECT_NEAR(d.kld, kld, 1e-6);
    EXPECT_NEAR(d.log_p_candidate, q[7] - std::log(q_sum), 1e-5);
  }
}

TEST(Divergence, AConstantAddedToAllLogitsChangesNothing) {
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {101, 102, 103};
  EXPECT_NEAR(Diverge(a, b, 0).kld, 0, 1e-9);
}

TEST(Divergence, TiesGoToTheLowestIdAndNonFiniteIsCounted) {
  EXPECT_TRUE(Diverge(std::vector<float>{2, 2, 1}, std::vector<float>{2, 1, 1}, 0).same_top1);
  EXPECT_FALSE(Diverge(std::vector<float>{2, 2, 1}, std::vector<float>{1, 2, 1}, 0).same_top1);
  const std::vector<float> bad = {1, std::numeric_limits<float>::quiet_NaN(), 0};
  EXPECT_TRUE(Diverge(std::vector<float>{1, 2, 3}, bad, 0).non_finite);
}

DocumentDivergence Document(size_t positions, float kld, Random* random) {
  DocumentDivergence document;
  for (size_t i = 0; i < positions; ++i) {
    PositionDivergence p;
    p.kld = kld * static_cast<float>(random->Uniform() * 2);
    p.same_top1 = random->Below(10) != 0;
    p.log_p_baseline = -1;
    p.log_p_candidate = -1.1F;
    document.positions.push_back(p);
  }
  return document;
}

TEST(Divergence, SummariesSayOnlyWhatTheirSizeAllows) {
  Random random(2);
  std::vector<DocumentDivergence> documents = {Document(1000, 0.01F, &random)};
  DivergenceSummary s = Summarise(documents, 500, 1000, 1);
  EXPECT_EQ(s.positions, 500U);
  EXPECT_FALSE(s.mean_low.has_value()) << "one document has no interval";
  EXPECT_FALSE(s.p999.has_value());
  EXPECT_NEAR(s.mean_kld, 0.01, 0.001);
  EXPECT_NEAR(s.same_top1, 0.9, 0.05);
  EXPECT_NEAR(s.perplexity_candidate / s.perplexity_baseline, std::exp(0.1), 1e-4);
  for (int i = 0; i < 24; ++i) documents.push_back(Document(1000, 0.01F, &random));
  s = Summarise(documents, 500, 1000, 1);
  ASSERT_TRUE(s.mean_low && s.mean_high && s.p999);
  EXPECT_LT(*s.mean_low, s.mean_kld);
  EXPECT_GT(*s.mean_high, s.mean_kld);
  EXPECT_LE(s.p99, *s.p999);
  EXPECT_LE(*s.p999, s.max);
  EXPECT_EQ(Summarise({}, 0, 10, 1).positions, 0U);
}

}  // namespace
}  // namespace kvant
