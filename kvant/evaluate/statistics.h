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

// Paired outcomes of independent units: upper bound, at one-sided `confidence`, of the loss
// P(lost) - P(won). Conservative: the Clopper-Pearson upper bound of P(lost) at half the error,
// minus the lower bound of P(won) at the other half. Exact for any number of units.
double LossUpperBound(uint64_t lost, uint64_t won, uint64_t units, double confidence);

// Holm's step-down: which hypotheses are rejected at level alpha, in the order given.
std::vector<bool> HolmReject(const std::vector<double>& p_values, double alpha);

// The fewest units n for which no discordant pair at all bounds the loss below `margin`.
uint64_t UnitsToClear(double margin, double confidence);

// Student's t quantile (two-sided confidence), by bisection on the incomplete beta function.
double StudentQuantile(double confidence, uint64_t degrees);

}  // namespace kvant
