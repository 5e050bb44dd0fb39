#include "kvant/evaluate/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {

namespace {

double LogChoose(uint64_t n, uint64_t k) {
  return std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
         std::lgamma(static_cast<double>(n - k) + 1);
}

// Continued fraction of the incomplete beta function (Numerical analysis: Lentz's method on
// Abramowitz & Stegun 26.5.8).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
  double result = d;
  for (int m = 1; m < 500; ++m) {
    for (const bool even : {true, false}) {
      const double numerator = even ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                    : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 + numerator * d;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      c = 1 + numerator / c;
      if (std::fabs(c) < kTiny) c = kTiny;
      result *= c * d;
    }
    if (std::fabs(c * d - 1) < 1e-14) break;
  }
  return result;
}

// I_x(a, b)
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * BetaFraction(a, b, x) / a
                                   : 1 - front * BetaFraction(b, a, 1 - x) / b;
}

// The boldest stake loses everything on a value of 1 and refutes a claim m soonest when nothing is
// lost; most of the capital is on it, the rest is spread over smaller stakes.
constexpr double kBoldShare = 0.75;
constexpr int kStakes = 20;

// Capital of a bettor against "the mean is at least claim".
double CapitalAgainst(double claim, const std::vector<double>& values) {
  double capital = 0;
  for (int stake = 1; stake <= kStakes; ++stake) {
    const double share =
        stake == kStakes ? kBoldShare : (1 - kBoldShare) / static_cast<double>(kStakes - 1);
    // 1 / (1 - claim) is the largest stake that cannot go below zero.
    const double bet = static_cast<double>(stake) / kStakes / (1 - claim);
    double log_growth = 0;
    for (const double value : values) log_growth += std::log1p(bet * (claim - value));
    capital += share * std::exp(log_growth);
  }
  return capital;
}

constexpr int kResamples = 2000;

Interval PercentileInterval(const std::vector<Cluster>& clusters, double confidence,
                            uint64_t seed) {
  Random random(seed);
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    double sum = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < clusters.size(); ++i) {
      const Cluster& cluster = clusters[random.Below(clusters.size())];
      sum += cluster.sum;
      count += cluster.count;
    }
    mean = sum / static_cast<double>(count);
  }
  std::sort(means.begin(), means.end());
  const double tail = (1 - confidence) / 2;
  const auto at = [&](double q) {
    return means[std::min<size_t>(static_cast<size_t>(q * kResamples), kResamples - 1)];
  };
  return {at(tail), at(1 - tail)};
}

Interval StudentInterval(const std::vector<Cluster>& clusters, double confidence) {
  const double mean = PooledMean(clusters);
  const auto n = static_cast<double>(clusters.size());
  double total = 0;
  for (const Cluster& cluster : clusters) total += static_cast<double>(cluster.count);
  // Linearised ratio estimate: each cluster's excess over the pooled mean.
  double squares = 0;
  for (const Cluster& cluster : clusters) {
    squares += std::pow(cluster.sum - mean * static_cast<double>(cluster.count), 2);
  }
  const double error = std::sqrt(n / (n - 1) * squares) / total;
  const double half = StudentQuantile(confidence, clusters.size() - 1) * error;
  return {mean - half, mean + half};
}

}  // namespace

double PooledMean(const std::vector<Cluster>& clusters) {
  double sum = 0;
  uint64_t count = 0;
  for (const Cluster& cluster : clusters) {
    sum += cluster.sum;
    count += cluster.count;
  }
  KVANT_CHECK(count > 0);
  return sum / static_cast<double>(count);
}

Interval BootstrapMean(const std::vector<Cluster>& clusters, double confidence, uint64_t seed) {
  KVANT_CHECK(clusters.size() >= 2);
  return clusters.size() < kClustersForBootstrap ? StudentInterval(clusters, confidence)
                                                 : PercentileInterval(clusters, confidence, seed);
}

double SignTail(uint64_t successes, uint64_t trials) {
  if (successes == 0) return 1;
  double tail = 0;
  const double log_half = static_cast<double>(trials) * std::log(0.5);
  for (uint64_t k = successes; k <= trials; ++k) tail += std::exp(LogChoose(trials, k) + log_half);
  return std::min(tail, 1.0);
}

double McNemarLoss(uint64_t lost, uint64_t won) { return SignTail(lost, lost + won); }

double McNemarTwoSided(uint64_t lost, uint64_t won) {
  return std::min(1.0, 2 * SignTail(std::max(lost, won), lost + won));
}

Interval WilsonInterval(uint64_t successes, uint64_t trials, double confidence) {
  KVANT_CHECK(trials > 0);
  const double z = StudentQuantile(confidence, 1'000'000'000);
  const auto n = static_cast<double>(trials);
  const double p = static_cast<double>(successes) / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

double MeanUpperBound(const std::vector<double>& values, double confidence) {
  KVANT_CHECK(!values.empty() && confidence > 0 && confidence < 1);
  // The capital grows with the claim.
  double low = -1;
  double high = 1;
  for (int i = 0; i < 40; ++i) {
    const double claim = (low + high) / 2;
    (CapitalAgainst(claim, values) < 1 / (1 - confidence) ? low : high) = claim;
  }
  return high;
}

std::vector<bool> HolmReject(const std::vector<double>& p_values, double alpha) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<bool> rejected(p_values.size(), false);
  for (size_t i = 0; i < order.size(); ++i) {
    if (p_values[order[i]] > alpha / static_cast<double>(order.size() - i)) break;
    rejected[order[i]] = true;
  }
  return rejected;
}

uint64_t UnitsToClear(double margin, double confidence) {
  KVANT_CHECK(margin > 0 && margin < 1);
  constexpr uint64_t kMost = 100'000;
  uint64_t low = 0;  // too few
  uint64_t high = 1;
  const auto clears = [&](uint64_t n) {
    return MeanUpperBound(std::vector<double>(n, 0.0), confidence) <= margin;
  };
  while (high < kMost && !clears(high)) low = std::exchange(high, 2 * high);
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (clears(middle) ? high : low) = middle;
  }
  return high;
}

double StudentQuantile(double confidence, uint64_t degrees) {
  KVANT_CHECK(degrees > 0 && confidence > 0 && confidence < 1);
  const auto n = static_cast<double>(degrees);
  // P(|T| > t) = I_{n/(n+t²)}(n/2, 1/2)
  double low = 0;
  double high = 1e4;
  for (int i = 0; i < 200; ++i) {
    const double t = (low + high) / 2;
    const double outside = IncompleteBeta(n / 2, 0.5, n / (n + t * t));
    (outside > 1 - confidence ? low : high) = t;
  }
  return (low + high) / 2;
}

}  // namespace kvant
