// How far a candidate's next-token distribution is from the baseline's, position by position.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvant {

// One position: both models have seen the same tokens and predict the next.
struct PositionDivergence {
  float kld = 0;             // KL(baseline ‖ candidate), nats
  float log_p_baseline = 0;  // of the token that really follows
  float log_p_candidate = 0;
  bool same_top1 = false;   // ties: the lowest id
  bool non_finite = false;  // a logit was NaN or infinite: kld is then NaN
};

// logits [vocabulary] of both; `next` the token that follows. float64 throughout.
PositionDivergence Diverge(std::span<const float> baseline, std::span<const float> candidate,
                           int32_t next);

// The positions of one document, in order, and where the first of them lies.
struct DocumentDivergence {
  uint64_t first_position = 0;
  std::vector<PositionDivergence> positions;
};

struct DivergenceSummary {
  uint64_t documents = 0;
  uint64_t positions = 0;
  uint64_t non_finite = 0;  // left out of everything else
  double mean_kld = 0;
  // 95 % interval of the mean, by bootstrap over documents; absent for fewer than 2.
  std::optional<double> mean_low, mean_high;
  double median = 0;
  double p99 = 0;
  std::optional<double> p999;  // from 10,000 positions on
  double max = 0;
  double same_top1 = 0;
  std::optional<double> same_top1_low, same_top1_high;
  double perplexity_baseline = 0;
  double perplexity_candidate = 0;
};

// Positions in [from, to) of every document. seed: of the bootstrap.
DivergenceSummary Summarise(const std::vector<DocumentDivergence>& documents, uint64_t from,
                            uint64_t to, uint64_t seed);

}  // namespace kvant
