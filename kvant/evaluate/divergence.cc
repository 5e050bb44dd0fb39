#include "kvant/evaluate/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvant/core/error.h"
#include "kvant/evaluate/statistics.h"
#include "kvant/kernel/vector_ops.h"

namespace kvant {

namespace {

struct LogSoftmax {
  double log_sum = 0;  // log Σ exp(logit)
  size_t top = 0;
  bool finite = true;
};

LogSoftmax Normalise(std::span<const float> logits) {
  LogSoftmax result;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) result.finite = false;
    if (logits[i] > logits[result.top]) result.top = i;
  }
  if (!result.finite) return result;
  const float maximum = logits[result.top];
  result.log_sum = maximum + std::log(SumOfExponentials(logits.data(), logits.size(), maximum));
  return result;
}

// Linear interpolation between order statistics.
double Quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

// A 99.9 % quantile of fewer positions is a guess at one or two values.
constexpr uint64_t kPositionsForP999 = 10000;

}  // namespace

PositionDivergence Diverge(std::span<const float> baseline, std::span<const float> candidate,
                           int32_t next) {
  KVANT_CHECK(baseline.size() == candidate.size() && !baseline.empty());
  KVANT_CHECK(next >= 0 && static_cast<size_t>(next) < baseline.size());
  PositionDivergence result;
  const LogSoftmax p = Normalise(baseline);
  const LogSoftmax q = Normalise(candidate);
  if (!p.finite || !q.finite) {
    result.non_finite = true;
    result.kld = std::numeric_limits<float>::quiet_NaN();
    return result;
  }
  const double kld =
      KlDivergence(baseline.data(), p.log_sum, candidate.data(), q.log_sum, baseline.size());
  result.kld = static_cast<float>(std::max(kld, 0.0));
  const auto n = static_cast<size_t>(next);
  result.log_p_baseline = static_cast<float>(baseline[n] - p.log_sum);
  result.log_p_candidate = static_cast<float>(candidate[n] - q.log_sum);
  result.same_top1 = p.top == q.top;
  return result;
}

DivergenceSummary Summarise(const std::vector<DocumentDivergence>& documents, uint64_t from,
                            uint64_t to, uint64_t seed) {
  DivergenceSummary summary;
  std::vector<double> all;
  std::vector<Cluster> klds;
  std::vector<Cluster> agreements;
  double log_baseline = 0;
  double log_candidate = 0;
  for (const DocumentDivergence& document : documents) {
    Cluster kld;
    Cluster agreement;
    for (size_t i = 0; i < document.positions.size(); ++i) {
      const uint64_t position = document.first_position + i;
      if (position < from || position >= to) continue;
      const PositionDivergence& p = document.positions[i];
      if (p.non_finite) {
        ++summary.non_finite;
        continue;
      }
      all.push_back(p.kld);
      kld.Add(p.kld);
      agreement.Add(p.same_top1 ? 1 : 0);
      log_baseline += p.log_p_baseline;
      log_candidate += p.log_p_candidate;
    }
    if (kld.count == 0) continue;
    klds.push_back(kld);
    agreements.push_back(agreement);
  }
  summary.documents = klds.size();
  summary.positions = all.size();
  if (all.empty()) return summary;
  std::sort(all.begin(), all.end());
  const auto n = static_cast<double>(all.size());
  summary.mean_kld = PooledMean(klds);
  summary.same_top1 = PooledMean(agreements);
  summary.median = Quantile(all, 0.5);
  summary.p99 = Quantile(all, 0.99);
  if (summary.positions >= kPositionsForP999) summary.p999 = Quantile(all, 0.999);
  summary.max = all.back();
  summary.perplexity_baseline = std::exp(-log_baseline / n);
  summary.perplexity_candidate = std::exp(-log_candidate / n);
  if (summary.documents >= 2) {
    const Interval kld = BootstrapMean(klds, 0.95, seed);
    summary.mean_low = kld.low;
    summary.mean_high = kld.high;
    const Interval agreement = BootstrapMean(agreements, 0.95, seed);
    summary.same_top1_low = agreement.low;
    summary.same_top1_high = agreement.high;
  }
  return summary;
}

}  // namespace kvant
