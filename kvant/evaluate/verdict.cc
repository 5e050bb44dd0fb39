#include "kvant/evaluate/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/evaluate/statistics.h"

namespace kvant {

namespace {

struct RuleField {
  const char* name;
  double VerdictRules::*value;
  double low, high;
};

constexpr RuleField kFields[] = {
    {"good_kld", &VerdictRules::good_kld, 0, 100},
    {"bad_kld", &VerdictRules::bad_kld, 0, 100},
    {"good_same_top1", &VerdictRules::good_same_top1, 0, 1},
    {"needle_margin", &VerdictRules::needle_margin, 0.001, 1},
    {"needle_confidence", &VerdictRules::needle_confidence, 0.5, 0.9999},
    {"alpha", &VerdictRules::alpha, 0.0001, 0.5},
    {"discriminative_score", &VerdictRules::discriminative_score, 0, 1},
    {"repetition_margin", &VerdictRules::repetition_margin, 0, 1}};

std::string CellName(const char* kind, uint64_t bucket) {
  return fmt::format("{} at {}", kind, FormatTokens(bucket));
}

// What one cell says.
enum class Say { kClear, kTooSmall, kDoubt, kLoss };

struct Finding {
  Say say = Say::kClear;
  std::string cell;
  std::string reason;
  std::string would_decide;
};

Finding JudgeDivergence(const DivergenceCell& cell, const VerdictRules& rules) {
  Finding finding;
  finding.cell = CellName("divergence", cell.bucket);
  const std::string measured = fmt::format(
      "{}: mean KLD {:.2g}{}, same top-1 {:.1f} % over {} positions of {} documents", finding.cell,
      cell.mean_kld, cell.low ? fmt::format(" [{:.2g}, {:.2g}]", *cell.low, *cell.high) : "",
      100 * cell.same_top1, cell.positions, cell.documents);
  finding.reason = measured;
  if (cell.non_finite > 0) {
    finding.say = Say::kLoss;
    finding.reason += fmt::format("; {} positions with NaN or infinite logits", cell.non_finite);
    return finding;
  }
  if (cell.low && *cell.low > rules.bad_kld) {
    finding.say = Say::kLoss;
    finding.reason += fmt::format("; above {:.2g} beyond its interval", rules.bad_kld);
    return finding;
  }
  const bool enough = cell.documents >= rules.min_documents &&
                      cell.positions >= rules.min_positions && cell.high.has_value();
  if (!enough) {
    finding.say = Say::kTooSmall;
    finding.would_decide =
        fmt::format("{}: at least {} documents and {} positions (has {} and {})", finding.cell,
                    rules.min_documents, rules.min_positions, cell.documents, cell.positions);
    return finding;
  }
  if (*cell.high > rules.good_kld || cell.same_top1 < rules.good_same_top1) {
    finding.say = Say::kDoubt;
    finding.reason += fmt::format("; not below {:.2g} and above {:.0f} %", rules.good_kld,
                                  100 * rules.good_same_top1);
  }
  return finding;
}

Finding JudgeNeedles(const NeedleCell& cell, const VerdictRules& rules, bool loss_significant) {
  Finding finding;
  finding.cell = CellName("needles", cell.bucket);
  const double bound = MeanUpperBound(cell.losses, rules.needle_confidence);
  finding.reason = fmt::format(
      "{}: {} of {} right, baseline {}; {} haystacks lost, {} won of {}: loss at most {:.0f} "
      "points at {:.0f} % confidence",
      finding.cell, cell.candidate_right, cell.questions, cell.baseline_right, cell.haystacks_lost,
      cell.haystacks_won, cell.haystacks, 100 * bound, 100 * rules.needle_confidence);
  if (loss_significant) {
    finding.say = Say::kLoss;
    finding.reason += "; a significant loss after Holm";
    return finding;
  }
  if (bound > rules.needle_margin) {
    finding.say = Say::kTooSmall;
    finding.would_decide = fmt::format(
        "{}: at least {} haystacks without a loss bound it below {:.0f} points (has {})",
        finding.cell, UnitsToClear(rules.needle_margin, rules.needle_confidence),
        100 * rules.needle_margin, cell.haystacks);
  }
  return finding;
}

bool Discriminates(const NeedleCell& cell, const VerdictRules& rules) {
  return cell.questions > 0 && cell.baseline_score() >= rules.discriminative_score;
}

std::vector<Finding> JudgeAll(const GroupEvidence& evidence, const VerdictRules& rules,
                              std::vector<std::string>* notes) {
  std::vector<Finding> findings;
  for (const DivergenceCell& cell : evidence.divergence) {
    findings.push_back(JudgeDivergence(cell, rules));
  }
  std::vector<const NeedleCell*> cells;
  std::vector<double> p_values;
  for (const NeedleCell& cell : evidence.needles) {
    if (!Discriminates(cell, rules)) {
      notes->push_back(fmt::format("{} decides nothing: the baseline scores {:.0f} %",
                                   CellName("needles", cell.bucket), 100 * cell.baseline_score()));
      continue;
    }
    cells.push_back(&cell);
    p_values.push_back(McNemarLoss(cell.haystacks_lost, cell.haystacks_won));
  }
  const std::vector<bool> losses = HolmReject(p_values, rules.alpha);
  for (size_t i = 0; i < cells.size(); ++i) {
    findings.push_back(JudgeNeedles(*cells[i], rules, losses[i]));
  }
  if (evidence.free_run && evidence.free_run->outputs > 0) {
    const FreeRunCell& run = *evidence.free_run;
    const double more =
        (static_cast<double>(run.repeating) - static_cast<double>(run.baseline_repeating)) /
        static_cast<double>(run.outputs);
    Finding finding;
    finding.cell = "free running";
    finding.reason = fmt::format("free running: {} of {} outputs end in repetition, baseline {}",
                                 run.repeating, run.outputs, run.baseline_repeating);
    if (more > rules.repetition_margin) finding.say = Say::kDoubt;
    findings.push_back(finding);
  }
  return findings;
}

}  // namespace

std::string_view VerdictName(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kShip:
      return "ship";
    case VerdictKind::kCanary:
      return "canary";
    case VerdictKind::kDoNotShip:
      return "do not ship";
    case VerdictKind::kInconclusive:
      return "inconclusive";
  }
  return "inconclusive";
}

int VerdictExitCode(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kShip:
      return 0;
    case VerdictKind::kDoNotShip:
      return 1;
    case VerdictKind::kCanary:
      return 5;
    case VerdictKind::kInconclusive:
      return 6;
  }
  return 6;
}

double NeedleCell::baseline_score() const {
  return questions == 0 ? 0 : static_cast<double>(baseline_right) / static_cast<double>(questions);
}
double NeedleCell::candidate_score() const {
  return questions == 0 ? 0 : static_cast<double>(candidate_right) / static_cast<double>(questions);
}

Json RulesToJson(const VerdictRules& rules) {
  Json json = {{"min_documents", rules.min_documents}, {"min_positions", rules.min_positions}};
  for (const RuleField& field : kFields) json[field.name] = rules.*field.value;
  return json;
}

VerdictRules RulesFromJson(const Json& json, const std::string& source) {
  VerdictRules rules;
  if (!json.is_object()) throw Error(ErrorCode::kInvalidInput, source + ": not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "min_documents" || key == "min_positions") {
      if (!value.is_number_unsigned()) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("{}: '{}' is not a whole number", source, key));
      }
      (key == "min_documents" ? rules.min_documents : rules.min_positions) = value.get<uint64_t>();
      continue;
    }
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&name = key](const RuleField& f) { return name == f.name; });
    if (field == std::end(kFields)) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: there is no rule '{}'", source, key));
    }
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= field->low && number <= field->high)) {
      throw Error(ErrorCode::kInvalidInput, fmt::format("{}: '{}' must lie in [{}, {}]", source,
                                                        key, field->low, field->high));
    }
    rules.*field->value = number;
  }
  return rules;
}

std::vector<std::string> DescribeRules(const VerdictRules& r) {
  return {
      fmt::format(
          "Divergence clears a bucket when the upper end of mean KLD's 95 % interval is at "
          "most {:g} nats and same-top-1 at least {:g} %, over at least {} documents and {} "
          "positions.",
          r.good_kld, 100 * r.good_same_top1, r.min_documents, r.min_positions),
      fmt::format("Divergence vetoes when the lower end of the interval is above {:g} nats, or any "
                  "logit is NaN or infinite.",
                  r.bad_kld),
      fmt::format(
          "Needles clear a bucket when at most {:g} points of the answers are lost at {:g} % "
          "confidence (betting bound over haystacks); they veto on a significant loss "
          "(exact McNemar over haystacks, Holm over buckets, alpha {:g}).",
          100 * r.needle_margin, 100 * r.needle_confidence, r.alpha),
      fmt::format("A bucket in which the baseline answers fewer than {:g} % of the questions "
                  "decides nothing.",
                  100 * r.discriminative_score),
      fmt::format(
          "Free running: more than {:g} points more outputs that end in repetition than the "
          "baseline's is a doubt.",
          100 * r.repetition_margin),
      "ship: every cell clears and the negative control failed. do not ship: any cell vetoes. "
      "canary: none vetoes, divergence has enough evidence in every bucket, and some cell is in "
      "doubt or too small. inconclusive: too little evidence, or the negative control passed."};
}

bool ControlFailed(const GroupEvidence& control, const VerdictRules& rules) {
  for (const DivergenceCell& cell : control.divergence) {
    if (cell.non_finite > 0 || cell.low.value_or(cell.mean_kld) > rules.bad_kld) return true;
  }
  return false;
}

Verdict Decide(const GroupEvidence& evidence, const VerdictRules& rules,
               std::optional<bool> negative_control_failed) {
  Verdict verdict;
  verdict.group = evidence.group;
  const std::vector<Finding> findings = JudgeAll(evidence, rules, &verdict.reasons);
  const auto decide = [&](VerdictKind kind, const Finding& finding) {
    verdict.kind = kind;
    verdict.deciding_cell = finding.cell;
    verdict.reasons.insert(verdict.reasons.begin(), finding.reason);
  };
  bool divergence_clears = !evidence.divergence.empty();
  const Finding* first_open = nullptr;
  for (size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    if (finding.say == Say::kLoss) {
      decide(VerdictKind::kDoNotShip, finding);
      return verdict;
    }
    if (!finding.would_decide.empty()) verdict.would_decide.push_back(finding.would_decide);
    if (finding.say == Say::kClear) continue;
    if (first_open == nullptr) first_open = &finding;
    if (i < evidence.divergence.size() && finding.say == Say::kTooSmall) {
      divergence_clears = false;
    }
  }
  if (negative_control_failed == std::optional<bool>(false)) {
    verdict.deciding_cell = "negative control";
    verdict.reasons.insert(verdict.reasons.begin(),
                           "the negative control was not seen to fail: this run proves nothing");
    verdict.would_decide.push_back("longer buckets or more text, until the broken format fails");
    return verdict;
  }
  if (!divergence_clears) {
    if (first_open != nullptr) {
      decide(VerdictKind::kInconclusive, *first_open);
    } else {
      verdict.reasons.insert(verdict.reasons.begin(), "no divergence was measured");
    }
    return verdict;
  }
  const bool needles_decide =
      std::any_of(evidence.needles.begin(), evidence.needles.end(),
                  [&](const NeedleCell& cell) { return Discriminates(cell, rules); });
  if (first_open != nullptr) {
    decide(VerdictKind::kCanary, *first_open);
    return verdict;
  }
  if (!needles_decide || !negative_control_failed.has_value()) {
    verdict.kind = VerdictKind::kCanary;
    verdict.deciding_cell = needles_decide ? "negative control" : "needles";
    verdict.reasons.insert(verdict.reasons.begin(), needles_decide
                                                        ? "there was no negative control"
                                                        : "no retrieval cell can show a loss");
    return verdict;
  }
  decide(VerdictKind::kShip, findings.back());
  return verdict;
}

}  // namespace kvant
