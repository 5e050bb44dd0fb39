// From measured cells to ship, canary, do not ship or inconclusive, by rules that are printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/json.h"

namespace kvant {

enum class VerdictKind { kShip, kCanary, kDoNotShip, kInconclusive };
std::string_view VerdictName(VerdictKind kind);  // "ship", "canary", "do not ship", …
int VerdictExitCode(VerdictKind kind);           // 0, 5, 1, 6

// Everything that a verdict depends on besides the measurements.
struct VerdictRules {
  // Divergence: mean KLD (nats) per bucket. Above `bad` beyond its interval: do not ship. Below
  // `good` with its interval: cleared. Between: canary at best.
  double good_kld = 0.005;
  double bad_kld = 0.05;
  double good_same_top1 = 0.97;
  uint64_t min_documents = 4;  // fewer clear nothing
  uint64_t min_positions = 2000;
  // Needles: most points of retrieval that may be lost, as a share, at 95 % confidence.
  double needle_margin = 0.05;
  double needle_confidence = 0.95;
  double alpha = 0.05;  // of a loss, after Holm
  // A cell in which the baseline scores less cannot show a loss.
  double discriminative_score = 0.5;
  // Free-running: a candidate may repeat itself in at most this share of outputs more.
  double repetition_margin = 0.1;
};
Json RulesToJson(const VerdictRules& rules);
// Throws Error{kInvalidInput} for unknown keys and values out of range.
VerdictRules RulesFromJson(const Json& json, const std::string& source);
// One line per rule, with its numbers.
std::vector<std::string> DescribeRules(const VerdictRules& rules);

struct DivergenceCell {
  uint64_t bucket = 0;
  uint64_t documents = 0;
  uint64_t positions = 0;
  double mean_kld = 0;
  std::optional<double> low, high;
  double same_top1 = 0;
  uint64_t non_finite = 0;
};

// Questions of one bucket, paired with the baseline's.
struct NeedleCell {
  uint64_t bucket = 0;
  uint64_t questions = 0;
  uint64_t haystacks = 0;
  uint64_t baseline_right = 0;
  uint64_t candidate_right = 0;
  // Haystacks in which the candidate answered fewer (more) than the baseline: haystacks, not
  // questions, are independent.
  uint64_t haystacks_lost = 0;
  uint64_t haystacks_won = 0;
  // Per haystack: (baseline's right answers - candidate's) / questions, in [-1, 1].
  std::vector<double> losses;
  double baseline_score() const;
  double candidate_score() const;
};

struct FreeRunCell {
  uint64_t outputs = 0;
  uint64_t repeating = 0;
  uint64_t baseline_repeating = 0;
};

struct GroupEvidence {
  std::string group;
  std::vector<DivergenceCell> divergence;
  std::vector<NeedleCell> needles;
  std::optional<FreeRunCell> free_run;
};

struct Verdict {
  std::string group;
  VerdictKind kind = VerdictKind::kInconclusive;
  std::string deciding_cell;
  std::vector<std::string> reasons;
  std::vector<std::string> would_decide;
};

// Whether a group that is known to be broken was seen to be: its divergence is above `bad`.
bool ControlFailed(const GroupEvidence& control, const VerdictRules& rules);

// negative_control_failed: null if the run had none.
Verdict Decide(const GroupEvidence& evidence, const VerdictRules& rules,
               std::optional<bool> negative_control_failed);

}  // namespace kvant
