// Statistics of paired results: the same prompts under baseline and candidate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvant {

// Values that belong together and are not independent of each other: the positions of a document,
// the questions of a haystack.
struct Cluster {
  double sum = 0;
  uint64_t count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
};

struct Interval {
  double low = 0;
  double high = 0;
};

// Σ sums / Σ counts. REQUIRES: at least one value.
double PooledMean(const std::vector<Cluster>& clusters);

// Two-sided percentile interval of the pooled mean, resampling whole clusters (2,000 times).
// For fewer than kClustersForBootstrap clusters the percentile interval is too narrow; it is then
// the t interval of the cluster means' ratio estimate, which is wider. REQUIRES: >= 2 clusters.
Interval BootstrapMean(const std::vector<Cluster>& clusters, double confidence, uint64_t seed);
inline constexpr size_t kClustersForBootstrap = 20;

// Exact binomial tail: P(X >= successes) for X ~ Binomial(trials, 1/2).
double SignTail(uint64_t successes, uint64_t trials);

// Exact McNemar test on discordant pairs: `lost` the baseline answered and the candidate did not,
// `won` the other way round. Two-sided p, and the one-sided p that the candidate loses.
double McNemarTwoSided(uint64_t lost, uint64_t won);
double McNemarLoss(uint64_t lost, uint64_t won);

// Wilson interval of a proportion.
Interval WilsonInterval(uint64_t successes, uint64_t trials, double confidence);

// Upper bound, at one-sided `confidence`, of the mean of independent values in [-1, 1], whatever
// their distribution and however few: the loss of a haystack is the share of its questions that the
// baseline answers and the candidate does not, less the share the other way round.
//
// A bettor against "the mean is at least m" stakes a share of the capital on every value; the
// expected capital never exceeds 1 if the claim holds, so by Markov's inequality a claim whose
// capital reaches 1 / (1 - confidence) is refuted. The bound is the least claim so refuted. Stakes
// are fixed and mixed, hence the order of the values does not matter.
// Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"
// (2024). REQUIRES: at least one value, each in [-1, 1].
double MeanUpperBound(const std::vector<double>& values, double confidence);

// Holm's step-down: which hypotheses are rejected at level alpha, in the order given.
std::vector<bool> HolmReject(const std::vector<double>& p_values, double alpha);

// The fewest values, all of them zero, whose MeanUpperBound is at most `margin`.
uint64_t UnitsToClear(double margin, double confidence);

// Student's t quantile (two-sided confidence), by bisection on the incomplete beta function.
double StudentQuantile(double confidence, uint64_t degrees);

}  // namespace kvant
