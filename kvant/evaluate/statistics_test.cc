#include "kvant/evaluate/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/evaluate/degradation.h"

namespace kvant {
namespace {

// Expected numbers: scipy 1.17 (binomtest, beta.ppf, t.ppf) and statsmodels 0.15
// (proportion_confint, multipletests); tests/statistics/make_golden.py prints them.
TEST(Statistics, ExactTestsMatchScipy) {
  EXPECT_NEAR(McNemarTwoSided(9, 1), 0.021484375, 1e-12);
  EXPECT_NEAR(McNemarTwoSided(3, 3), 1.0, 1e-12);
  EXPECT_NEAR(McNemarLoss(9, 1), 0.0107421875, 1e-12);
  EXPECT_NEAR(McNemarLoss(0, 5), 1.0, 1e-12);
  EXPECT_NEAR(McNemarLoss(5, 0), 0.03125, 1e-12);
  EXPECT_NEAR(SignTail(60, 100), 0.02844396682049039, 1e-12);
}

TEST(Statistics, StudentQuantilesMatchScipy) {
  EXPECT_NEAR(StudentQuantile(0.95, 1), 12.706204736432095, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.95, 5), 2.570581835636314, 1e-8);
  EXPECT_NEAR(StudentQuantile(0.99, 30), 2.7499956535672259, 1e-8);
  EXPECT_NEAR(StudentQuantile(0.95, 1'000'000'000), 1.959963984540054, 1e-5);
}

TEST(Statistics, WilsonMatchesStatsmodels) {
  const Interval interval = WilsonInterval(8, 10, 0.95);
  EXPECT_NEAR(interval.low, 0.4901624715, 1e-5);
  EXPECT_NEAR(interval.high, 0.9433178485, 1e-5);
}

TEST(Statistics, MeanBoundFallsWithNumbersAndRisesWithLosses) {
  const auto bound = [](uint64_t losses, double loss, uint64_t n) {
    std::vector<double> values(n, 0.0);
    for (uint64_t i = 0; i < losses; ++i) values[i] = loss;
    return MeanUpperBound(values, 0.95);
  };
  // Nothing lost: close to the rule of three, 1 - 0.05^(1/n), and never below it.
  for (const uint64_t n : {1U, 5U, 59U, 500U}) {
    const double exact = 1 - std::pow(0.05, 1.0 / static_cast<double>(n));
    EXPECT_GE(bound(0, 0, n), exact) << n;
    EXPECT_LE(bound(0, 0, n), 1.12 * exact) << n;
  }
  EXPECT_EQ(UnitsToClear(0.05, 0.95), 63U);
  EXPECT_GT(bound(0, 0, 62), 0.05);
  EXPECT_LE(bound(0, 0, 63), 0.05);
  EXPECT_GT(bound(1, 1, 50), bound(1, 0.2, 50));
  EXPECT_GT(bound(1, 0.2, 50), bound(0, 0, 50));
  EXPECT_LT(bound(5, -0.2, 50), bound(0, 0, 50));
  EXPECT_GE(bound(20, 1, 20), 1 - 1e-6) << "everything lost";
}

TEST(Statistics, HolmIsStatsmodels) {
  const std::vector<bool> rejected = HolmReject({0.01, 0.04, 0.03, 0.005}, 0.05);
  EXPECT_EQ(rejected, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(HolmReject({0.2}, 0.05), (std::vector<bool>{false}));
}

// The chance that a mean loss exactly at the margin is cleared must stay below 5 %, whether it
// comes as few haystacks lost whole or as single answers with wins between them.
TEST(Statistics, ALossAtTheMarginIsClearedAtMostOnceInTwenty) {
  struct Case {
    double lost_share, loss, won_share, win;
  };
  Random random(3);
  constexpr int kRuns = 400;
  for (const Case& c : {Case{0.05, 1, 0, 0}, Case{0.25, 0.2, 0, 0}, Case{0.5, 0.2, 0.25, 0.2},
                        Case{0.07, 1, 0.02, 1}}) {
    for (const uint64_t units : {20U, 64U, 200U}) {
      int cleared = 0;
      for (int run = 0; run < kRuns; ++run) {
        std::vector<double> losses(units, 0.0);
        for (double& loss : losses) {
          const double draw = random.Uniform();
          if (draw < c.lost_share) {
            loss = c.loss;
          } else if (draw < c.lost_share + c.won_share) {
            loss = -c.win;
          }
        }
        cleared += MeanUpperBound(losses, 0.95) <= 0.05 ? 1 : 0;
      }
      EXPECT_LE(cleared, 0.05 * kRuns + 3 * std::sqrt(0.05 * 0.95 * kRuns)) << units;
    }
  }
}

// Without any difference a loss is declared at most once in twenty, over all buckets together.
TEST(Statistics, NoDifferenceIsALossAtMostOnceInTwenty) {
  Random random(4);
  constexpr int kRuns = 4000;
  int declared = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> p_values;
    for (int bucket = 0; bucket < 4; ++bucket) {
      uint64_t lost = 0;
      uint64_t won = 0;
      for (int i = 0; i < 60; ++i) {
        const double draw = random.Uniform();
        lost += draw < 0.1 ? 1 : 0;
        won += draw > 0.9 ? 1 : 0;
      }
      p_values.push_back(McNemarLoss(lost, won));
    }
    for (const bool loss : HolmReject(p_values, 0.05)) {
      if (loss) {
        ++declared;
        break;
      }
    }
  }
  EXPECT_LE(declared, 0.05 * kRuns + 3 * std::sqrt(0.05 * 0.95 * kRuns));
}

// 95 % intervals of clustered means hold the truth about 95 times in 100, for few and many
// clusters.
TEST(Statistics, IntervalsCoverTheTruth) {
  Random random(5);
  for (const size_t clusters : {3U, 6U, 25U}) {
    int covered = 0;
    constexpr int kRuns = 600;
    for (int run = 0; run < kRuns; ++run) {
      std::vector<Cluster> sample;
      for (size_t c = 0; c < clusters; ++c) {
        const double centre = 1 + random.Normal();
        Cluster cluster;
        for (int i = 0; i < 50; ++i) cluster.Add(centre + random.Normal());
        sample.push_back(cluster);
      }
      const Interval interval = BootstrapMean(sample, 0.95, static_cast<uint64_t>(run));
      covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
    }
    EXPECT_GE(covered, 0.9 * kRuns) << clusters << " clusters";
  }
}

TEST(Degradation, AgreementAndTailRepetition) {
  EXPECT_EQ(AgreementLength(std::vector<int32_t>{1, 2, 3}, std::vector<int32_t>{1, 2, 4}), 2U);
  EXPECT_EQ(AgreementLength(std::vector<int32_t>{1, 2}, std::vector<int32_t>{1, 2, 4}), 2U);
  std::vector<int32_t> loop = {9, 8, 7};
  for (int i = 0; i < 10; ++i) loop.insert(loop.end(), {1, 2, 3, 4});
  EXPECT_EQ(TailRepetition(loop).period, 4U);
  EXPECT_EQ(TailRepetition(loop).copies, 10U);
  std::vector<int32_t> counting(200);
  for (size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<int32_t>(i);
  EXPECT_EQ(TailRepetition(counting).period, 0U);
  EXPECT_EQ(TailRepetition(std::vector<int32_t>{5, 5, 5, 5}).period, 0U) << "too short to tell";
  EXPECT_EQ(TailRepetition({}).period, 0U);
}

}  // namespace
}  // namespace kvant
