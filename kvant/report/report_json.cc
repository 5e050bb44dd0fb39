#include "kvant/report/report_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/evaluate/divergence.h"
#include "kvant/evaluate/statistics.h"

namespace kvant {

namespace {

constexpr uint64_t kBootstrapSeed = 20260101;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// Four float32 per position, as the experiment stores them.
DocumentDivergence ReadDocument(const StoredSample& sample) {
  constexpr size_t kRow = 4 * sizeof(float);
  if (sample.values.size() % kRow != 0) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("sample '{}' is damaged", sample.key));
  }
  DocumentDivergence document;
  document.positions.resize(sample.values.size() / kRow);
  for (size_t i = 0; i < document.positions.size(); ++i) {
    float row[4];
    std::memcpy(row, sample.values.data() + i * kRow, kRow);
    const auto mask = static_cast<int>(row[3]);
    document.positions[i] = {row[0], row[1], row[2], (mask & 1) != 0, (mask & 2) != 0};
  }
  return document;
}

struct GroupInfo {
  std::string name;
  std::string role;
  Json payload;
};

// Everything of one run, by kind.
struct RunSamples {
  StoredRun run;
  std::vector<GroupInfo> groups;
  std::string baseline;
  std::map<std::string, std::map<uint64_t, std::vector<StoredSample>>> divergence;
  std::map<std::string, std::map<uint64_t, StoredSample>> decode_checks;
  // {tokens, held_bytes, counts} of every document under a group, the baseline too.
  std::map<std::string, std::vector<Json>> documents;
  std::map<std::string, std::map<uint64_t, std::vector<Json>>> needles;
  std::map<std::string, std::vector<Json>> free_runs;
};

RunSamples ReadRun(const Store& store, int64_t run) {
  RunSamples samples;
  samples.run = store.Run(run);
  for (const StoredSample& s : store.Samples(run, "group")) {
    samples.groups.push_back({s.group, s.payload.at("role").get<std::string>(), s.payload});
    if (samples.groups.back().role == "baseline") samples.baseline = s.group;
  }
  for (StoredSample& s : store.Samples(run, "divergence")) {
    samples.divergence[s.group][s.bucket].push_back(std::move(s));
  }
  for (const auto& [group, buckets] : samples.divergence) {
    for (const auto& [bucket, documents] : buckets) {
      for (const StoredSample& s : documents) samples.documents[group].push_back(s.payload);
    }
  }
  for (const StoredSample& s : store.Samples(run, "held")) {
    samples.documents[s.group].push_back(s.payload);
  }
  for (StoredSample& s : store.Samples(run, "decode_check")) {
    samples.decode_checks[s.group].emplace(s.bucket, std::move(s));
  }
  for (const StoredSample& s : store.Samples(run, "needle")) {
    samples.needles[s.group][s.bucket].push_back(s.payload);
  }
  for (const StoredSample& s : store.Samples(run, "free_run")) {
    samples.free_runs[s.group].push_back(s.payload);
  }
  return samples;
}

// --- Divergence --------------------------------------------------------------------------------

std::vector<DocumentDivergence> Documents(const std::vector<StoredSample>& samples) {
  std::vector<DocumentDivergence> documents;
  for (const StoredSample& sample : samples) documents.push_back(ReadDocument(sample));
  return documents;
}

Json ByPosition(const std::vector<DocumentDivergence>& documents, uint64_t bucket) {
  Json rows = Json::array();
  uint64_t from = 0;
  for (uint64_t to = 128; from < bucket; to *= 2) {
    const uint64_t end = std::min(to, bucket);
    const DivergenceSummary s = Summarise(documents, from, end, kBootstrapSeed);
    if (s.positions > 0) {
      rows.push_back({{"from", from},
                      {"to", end},
                      {"positions", s.positions},
                      {"mean_kld", s.mean_kld},
                      {"same_top1", s.same_top1}});
    }
    from = end;
  }
  return rows;
}

Json DecodeCheck(const RunSamples& samples, const std::string& group, uint64_t bucket) {
  const auto it = samples.decode_checks.find(group);
  if (it == samples.decode_checks.end() || !it->second.contains(bucket)) return nullptr;
  const DocumentDivergence document = ReadDocument(it->second.at(bucket));
  const DivergenceSummary s = Summarise({document}, 0, document.positions.size(), kBootstrapSeed);
  if (s.positions == 0) return nullptr;
  return {{"positions", s.positions},
          {"mean_kld_prefill_vs_decode", s.mean_kld},
          {"same_top1", s.same_top1}};
}

// The second half of every document: a history of at least half the bucket.
DivergenceSummary SecondHalf(const std::vector<DocumentDivergence>& documents, uint64_t bucket) {
  return Summarise(documents, bucket / 2, bucket, kBootstrapSeed);
}

Json EmptyDivergence(const std::string& group, uint64_t bucket, const DivergenceSummary& s) {
  Json row = {
      {"group", group},         {"bucket", bucket},           {"documents", s.documents},
      {"positions", 0},         {"non_finite", s.non_finite}, {"by_position", Json::array()},
      {"decode_check", nullptr}};
  for (const char* field : {"mean_kld", "mean_low", "mean_high", "median", "p99", "p999", "max",
                            "same_top1", "same_top1_low", "same_top1_high", "perplexity",
                            "perplexity_baseline", "perplexity_ratio"}) {
    row[field] = nullptr;
  }
  return row;
}

Json DivergenceJson(const RunSamples& samples) {
  Json rows = Json::array();
  for (const GroupInfo& group : samples.groups) {
    const auto it = samples.divergence.find(group.name);
    if (it == samples.divergence.end()) continue;
    for (const auto& [bucket, stored] : it->second) {
      const std::vector<DocumentDivergence> documents = Documents(stored);
      const DivergenceSummary s = SecondHalf(documents, bucket);
      if (s.positions == 0) {  // not one with finite logits: a mean would say 0
        rows.push_back(EmptyDivergence(group.name, bucket, s));
        continue;
      }
      rows.push_back(
          {{"group", group.name},
           {"bucket", bucket},
           {"documents", s.documents},
           {"positions", s.positions},
           {"non_finite", s.non_finite},
           {"mean_kld", s.mean_kld},
           {"mean_low", OrNull(s.mean_low)},
           {"mean_high", OrNull(s.mean_high)},
           {"median", s.median},
           {"p99", s.p99},
           {"p999", OrNull(s.p999)},
           {"max", s.max},
           {"same_top1", s.same_top1},
           {"same_top1_low", OrNull(s.same_top1_low)},
           {"same_top1_high", OrNull(s.same_top1_high)},
           {"perplexity", s.perplexity_candidate},
           {"perplexity_baseline", s.perplexity_baseline},
           {"perplexity_ratio",
            s.perplexity_baseline > 0 ? s.perplexity_candidate / s.perplexity_baseline : 0},
           {"by_position", ByPosition(documents, bucket)},
           {"decode_check", DecodeCheck(samples, group.name, bucket)}});
    }
  }
  return rows;
}

std::vector<DivergenceCell> DivergenceCells(const RunSamples& samples, const std::string& group) {
  std::vector<DivergenceCell> cells;
  const auto it = samples.divergence.find(group);
  if (it == samples.divergence.end()) return cells;
  for (const auto& [bucket, stored] : it->second) {
    const DivergenceSummary s = SecondHalf(Documents(stored), bucket);
    cells.push_back({bucket, s.documents, s.positions, s.mean_kld, s.mean_low, s.mean_high,
                     s.same_top1, s.non_finite});
  }
  return cells;
}

// --- Needles -----------------------------------------------------------------------------------

// (haystack, depth) -> right.
std::map<std::pair<uint64_t, double>, bool> Answers(const std::vector<Json>& payloads) {
  std::map<std::pair<uint64_t, double>, bool> answers;
  for (const Json& p : payloads) {
    answers[{p.at("haystack").get<uint64_t>(), p.at("depth").get<double>()}] =
        p.at("right").get<bool>();
  }
  return answers;
}

NeedleCell CompareNeedles(uint64_t bucket, const std::vector<Json>& baseline,
                          const std::vector<Json>& candidate) {
  NeedleCell cell;
  cell.bucket = bucket;
  const auto expected = Answers(baseline);
  struct Haystack {
    double lost = 0;  // answers, net
    double questions = 0;
  };
  std::map<uint64_t, Haystack> haystacks;
  for (const auto& [question, right] : Answers(candidate)) {
    const auto it = expected.find(question);
    if (it == expected.end()) continue;
    ++cell.questions;
    cell.candidate_right += right ? 1 : 0;
    cell.baseline_right += it->second ? 1 : 0;
    haystacks[question.first].lost += (it->second ? 1 : 0) - (right ? 1 : 0);
    haystacks[question.first].questions += 1;
  }
  cell.haystacks = haystacks.size();
  for (const auto& [index, haystack] : haystacks) {
    cell.haystacks_lost += haystack.lost > 0 ? 1 : 0;
    cell.haystacks_won += haystack.lost < 0 ? 1 : 0;
    cell.losses.push_back(haystack.lost / haystack.questions);
  }
  return cell;
}

std::vector<NeedleCell> NeedleCells(const RunSamples& samples, const std::string& group) {
  std::vector<NeedleCell> cells;
  const auto it = samples.needles.find(group);
  const auto baseline = samples.needles.find(samples.baseline);
  if (it == samples.needles.end() || baseline == samples.needles.end()) return cells;
  for (const auto& [bucket, payloads] : it->second) {
    if (!baseline->second.contains(bucket)) continue;
    cells.push_back(CompareNeedles(bucket, baseline->second.at(bucket), payloads));
  }
  return cells;
}

std::vector<double> Negated(std::vector<double> values) {
  for (double& value : values) value = -value;
  return values;
}

Json NeedleCellsJson(const RunSamples& samples, const VerdictRules& rules) {
  Json rows = Json::array();
  for (const GroupInfo& group : samples.groups) {
    for (const NeedleCell& c : NeedleCells(samples, group.name)) {
      if (c.questions == 0) continue;
      const double difference = c.candidate_score() - c.baseline_score();
      rows.push_back({{"group", group.name},
                      {"bucket", c.bucket},
                      {"n", c.questions},
                      {"haystacks", c.haystacks},
                      {"haystacks_lost", c.haystacks_lost},
                      {"haystacks_won", c.haystacks_won},
                      {"score", c.candidate_score()},
                      {"baseline_score", c.baseline_score()},
                      {"difference", difference},
                      {"low", -MeanUpperBound(c.losses, 0.975)},
                      {"high", MeanUpperBound(Negated(c.losses), 0.975)},
                      {"discriminative", c.baseline_score() >= rules.discriminative_score},
                      {"p_value", McNemarLoss(c.haystacks_lost, c.haystacks_won)}});
    }
  }
  return rows;
}

Json NeedlesJson(const RunSamples& samples) {
  Json rows = Json::array();
  for (const GroupInfo& group : samples.groups) {
    const auto it = samples.needles.find(group.name);
    const auto baseline = samples.needles.find(samples.baseline);
    if (it == samples.needles.end() || baseline == samples.needles.end()) continue;
    for (const auto& [bucket, payloads] : it->second) {
      if (!baseline->second.contains(bucket)) continue;
      struct Count {
        uint64_t n = 0, right = 0, baseline_right = 0;
      };
      std::map<double, Count> by_depth;
      const auto expected = Answers(baseline->second.at(bucket));
      for (const auto& [question, right] : Answers(payloads)) {
        const auto match = expected.find(question);
        if (match == expected.end()) continue;
        Count& count = by_depth[question.second];
        ++count.n;
        count.right += right ? 1 : 0;
        count.baseline_right += match->second ? 1 : 0;
      }
      for (const auto& [depth, c] : by_depth) {
        const double score = static_cast<double>(c.right) / static_cast<double>(c.n);
        const double base = static_cast<double>(c.baseline_right) / static_cast<double>(c.n);
        rows.push_back({{"group", group.name},
                        {"bucket", bucket},
                        {"depth", depth},
                        {"n", c.n},
                        {"score", score},
                        {"baseline_score", base},
                        {"difference", score - base}});
      }
    }
  }
  return rows;
}

// --- Free running ------------------------------------------------------------------------------

uint64_t Repeating(const std::vector<Json>& runs) {
  return static_cast<uint64_t>(std::count_if(runs.begin(), runs.end(), [](const Json& run) {
    return run.at("period").get<uint64_t>() > 0;
  }));
}

// Outputs that end by themselves before the baseline's does.
double TruncatedShare(const std::vector<Json>& runs) {
  const auto truncated = std::count_if(runs.begin(), runs.end(), [](const Json& run) {
    return run.at("finish") == "stop" &&
           run.at("tokens").size() < run.at("baseline_tokens").get<size_t>();
  });
  return static_cast<double>(truncated) / static_cast<double>(runs.size());
}

Json FreeRunJson(const RunSamples& samples) {
  Json rows = Json::array();
  const auto baseline = samples.free_runs.find(samples.baseline);
  for (const GroupInfo& group : samples.groups) {
    const auto it = samples.free_runs.find(group.name);
    if (it == samples.free_runs.end() || it->second.empty()) continue;
    std::vector<double> agreement;
    size_t longest = 0;
    for (const Json& run : it->second) {
      agreement.push_back(run.at("agreement").get<double>());
      longest = std::max(longest, run.at("tokens").size());
    }
    std::sort(agreement.begin(), agreement.end());
    double sum = 0;
    for (const double a : agreement) sum += a;
    const auto n = static_cast<double>(agreement.size());
    rows.push_back(
        {{"group", group.name},
         {"n", agreement.size()},
         {"tokens", longest},
         {"mean_agreement", sum / n},
         {"median_agreement", agreement[agreement.size() / 2]},
         {"repetition", static_cast<double>(Repeating(it->second)) / n},
         {"baseline_repetition", baseline == samples.free_runs.end()
                                     ? Json(nullptr)
                                     : Json(static_cast<double>(Repeating(baseline->second)) / n)},
         {"truncated", TruncatedShare(it->second)}});
  }
  return rows;
}

// --- Groups ------------------------------------------------------------------------------------

// Sums of [values, saturated, clipped, non_finite] over a stream's layers and documents.
Json CountTotals(const std::vector<uint64_t>& totals) {
  return {{"values", totals[0]},
          {"saturated", totals[1]},
          {"clipped", totals[2]},
          {"non_finite", totals[3]}};
}

void AddCounts(const RunSamples& samples, const std::string& group, Json* json) {
  std::vector<uint64_t> k_total(4, 0);
  std::vector<uint64_t> v_total(4, 0);
  std::map<size_t, std::vector<uint64_t>> by_layer;  // k saturated, v saturated, k and v non-finite
  const auto it = samples.documents.find(group);
  if (it == samples.documents.end()) {
    (*json)["k"] = nullptr;
    (*json)["v"] = nullptr;
    (*json)["layers"] = Json::array();
    return;
  }
  for (const Json& document : it->second) {
    const Json& counts = document.at("counts");
    for (size_t layer = 0; layer < counts.at("k").size(); ++layer) {
      const auto k = counts.at("k").at(layer).get<std::vector<uint64_t>>();
      const auto v = counts.at("v").at(layer).get<std::vector<uint64_t>>();
      auto& row = by_layer.try_emplace(layer, 4, 0).first->second;
      for (size_t i = 0; i < 4; ++i) {
        k_total[i] += k.at(i);
        v_total[i] += v.at(i);
      }
      row[0] += k.at(1);
      row[1] += v.at(1);
      row[2] += k.at(3);
      row[3] += v.at(3);
    }
  }
  Json layers = Json::array();
  for (const auto& [layer, row] : by_layer) {
    layers.push_back({{"layer", layer},
                      {"k_saturated", row[0]},
                      {"v_saturated", row[1]},
                      {"k_non_finite", row[2]},
                      {"v_non_finite", row[3]}});
  }
  (*json)["k"] = CountTotals(k_total);
  (*json)["v"] = CountTotals(v_total);
  (*json)["layers"] = layers;
}

Json GroupsJson(const RunSamples& samples) {
  Json rows = Json::array();
  for (const GroupInfo& group : samples.groups) {
    Json row = group.payload;
    row["bytes_per_token_measured"] = nullptr;
    const auto it = samples.documents.find(group.name);
    if (it != samples.documents.end()) {
      const Json& longest =
          *std::max_element(it->second.begin(), it->second.end(), [](const Json& a, const Json& b) {
            return a.at("tokens").get<uint64_t>() < b.at("tokens").get<uint64_t>();
          });
      row["bytes_per_token_measured"] =
          longest.at("held_bytes").get<double>() / longest.at("tokens").get<double>();
      row["measured_at_tokens"] = longest.at("tokens");
    }
    AddCounts(samples, group.name, &row);
    rows.push_back(row);
  }
  return rows;
}

// --- Verdicts ----------------------------------------------------------------------------------

GroupEvidence EvidenceFor(const RunSamples& samples, const std::string& group) {
  GroupEvidence evidence;
  evidence.group = group;
  evidence.divergence = DivergenceCells(samples, group);
  evidence.needles = NeedleCells(samples, group);
  const auto runs = samples.free_runs.find(group);
  const auto baseline = samples.free_runs.find(samples.baseline);
  if (runs != samples.free_runs.end() && baseline != samples.free_runs.end()) {
    evidence.free_run =
        FreeRunCell{runs->second.size(), Repeating(runs->second), Repeating(baseline->second)};
  }
  return evidence;
}

std::optional<bool> NegativeControl(const RunSamples& samples, const VerdictRules& rules,
                                    Json* json) {
  *json = {{"negative", nullptr}};
  for (const GroupInfo& group : samples.groups) {
    if (group.role != "negative_control") continue;
    const bool failed = ControlFailed(EvidenceFor(samples, group.name), rules);
    (*json)["negative"] = {
        {"group", group.name},
        {"failed", failed},
        {"text", failed ? "the broken format was seen to be broken: this run can see damage"
                        : "the broken format was not seen to be broken: this run proves nothing"}};
    return failed;
  }
  return std::nullopt;
}

Json VerdictsJson(const RunSamples& samples, const VerdictRules& rules,
                  const std::optional<bool>& control_failed) {
  Json rows = Json::array();
  for (const GroupInfo& group : samples.groups) {
    if (group.role == "baseline" || group.role == "floor" || group.role == "negative_control") {
      continue;
    }
    const Verdict verdict = Decide(EvidenceFor(samples, group.name), rules, control_failed);
    rows.push_back({{"group", group.name},
                    {"verdict", VerdictName(verdict.kind)},
                    {"deciding_cell", verdict.deciding_cell},
                    {"reasons", verdict.reasons},
                    {"would_decide", verdict.would_decide}});
  }
  return rows;
}

constexpr double kEffectAlpha = 0.05;

double MeanKld(const StoredSample& sample, uint64_t bucket) {
  return SecondHalf({ReadDocument(sample)}, bucket).mean_kld;
}

// From the buckets in which a difference was found.
const char* EffectVerdict(const std::vector<bool>& significant, const std::vector<bool>& better) {
  bool any_better = false;
  bool any_worse = false;
  for (size_t i = 0; i < significant.size(); ++i) {
    if (significant[i]) (better[i] ? any_better : any_worse) = true;
  }
  if (any_better && any_worse) return "better in some buckets, worse in others";
  return any_better ? "better" : any_worse ? "worse" : "no difference seen";
}

// Mean KLD of two groups, paired. Documents of different buckets share text, so the test is within
// each bucket, and Holm's over all of them.
Json CalibrationEffect(const RunSamples& samples) {
  std::string unit;
  std::string calibrated;
  for (const GroupInfo& group : samples.groups) {
    const std::string source = group.payload.at("scale_source").get<std::string>();
    const std::string plan = group.payload.at("plan").get<std::string>();
    if (plan.find("skip=") != std::string::npos) continue;
    if (source == "unit" && unit.empty()) unit = group.name;
    if (source == "static (calibrated)" && calibrated.empty()) calibrated = group.name;
  }
  const auto u = samples.divergence.find(unit);
  const auto c = samples.divergence.find(calibrated);
  if (u == samples.divergence.end() || c == samples.divergence.end()) {
    return {{"verdict", "not measured"},
            {"text", "needs a group at unit scale and a calibrated one"}};
  }
  std::string text = fmt::format("{} against {}, mean KLD", calibrated, unit);
  std::vector<double> p_values;
  std::vector<bool> better;
  for (const auto& [bucket, stored] : u->second) {
    const auto other = c->second.find(bucket);
    if (other == c->second.end()) continue;
    uint64_t lower = 0;
    const uint64_t n = std::min(stored.size(), other->second.size());
    for (size_t i = 0; i < n; ++i) {
      lower += MeanKld(other->second[i], bucket) < MeanKld(stored[i], bucket) ? 1 : 0;
    }
    p_values.push_back(McNemarTwoSided(n - lower, lower));
    better.push_back(2 * lower > n);
    text += fmt::format("{} {}: {:.2g} against {:.2g}, lower in {} of {} documents (p = {:.2g})",
                        p_values.size() == 1 ? " at" : "; at", FormatTokens(bucket),
                        SecondHalf(Documents(other->second), bucket).mean_kld,
                        SecondHalf(Documents(stored), bucket).mean_kld, lower, n, p_values.back());
  }
  if (p_values.empty()) {
    return {{"verdict", "not measured"}, {"text", "no document was measured under both"}};
  }
  return {{"verdict", EffectVerdict(HolmReject(p_values, kEffectAlpha), better)},
          {"text", text + "; sign test over documents, Holm over buckets"}};
}

Json SpeedJson(const Store& store, int64_t run) {
  Json rows = Json::array();
  for (const StoredSample& s : store.Samples(run, "speed")) {
    rows.push_back(
        {{"group", s.group}, {"ttft", s.payload.at("ttft")}, {"tpot", s.payload.at("tpot")}});
  }
  return rows;
}

Json LayerSensitivityJson(const Store& store, int64_t run) {
  Json rows = Json::array();
  for (const StoredSample& s : store.Samples(run, "layer_sensitivity")) {
    rows.push_back({{"group", s.group},
                    {"layer", s.payload.at("layer")},
                    {"mean_kld", s.payload.at("mean_kld")}});
  }
  return rows.empty() ? Json(nullptr) : rows;
}

Json ConfigJson(const RunSamples& samples, const Store& store) {
  const Json& c = samples.run.config;
  Json calibration = nullptr;
  for (const StoredSample& s : store.Samples(samples.run.id, "calibration")) {
    calibration = {{"sha256", s.payload.at("text_sha256")},
                   {"tokens", s.payload.at("tokens")},
                   {"sequences", s.payload.at("sequences")},
                   {"apart_from_evaluation", s.payload.at("apart_from_evaluation")}};
  }
  std::string candidate;
  for (const GroupInfo& group : samples.groups) {
    if (group.role == "candidate") candidate = group.name;
  }
  return {{"preset", c.at("preset")},
          {"seed", c.at("seed")},
          {"buckets", c.at("buckets")},
          {"baseline", samples.baseline},
          {"candidate", candidate},
          {"command", c.at("command")},
          {"digest", samples.run.digest},
          {"calibration", calibration},
          {"evaluation",
           {{"sha256", c.at("evaluation_sha256")}, {"tokens", c.at("evaluation_tokens")}}}};
}

Json NotMeasured(const RunSamples& samples) {
  Json lines = Json::array();
  const Json& c = samples.run.config;
  const auto tasks = c.at("tasks").get<std::vector<std::string>>();
  for (const char* task : {"divergence", "needles", "free_run", "speed"}) {
    if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
      lines.push_back(fmt::format("{}: left out (--tasks)", task));
    }
  }
  if (c.at("layer_sensitivity").get<std::string>().empty()) {
    lines.push_back("which layer contributes most: ask with --layer-sensitivity GROUP");
  }
  lines.push_back(
      "OOM rate and tail latency under concurrent load: this run is one stream; the "
      "memory budget is hard, so what does not fit is refused, never killed");
  lines.push_back("GPU kernels: everything here ran on this machine's CPU");
  return lines;
}

}  // namespace

Json BuildReport(const Store& store, int64_t run, const VerdictRules& rules) {
  const RunSamples samples = ReadRun(store, run);
  Json controls;
  const std::optional<bool> control_failed = NegativeControl(samples, rules, &controls);
  Json memory = nullptr;
  for (const StoredSample& s : store.Samples(run, "memory")) memory = s.payload;
  return {{"schema", "kvant-report/1"},
          {"kvant_version", KVANT_VERSION},
          {"created", samples.run.created},
          {"complete", samples.run.complete},
          {"model", samples.run.config.at("model")},
          {"environment", samples.run.environment},
          {"config", ConfigJson(samples, store)},
          {"groups", GroupsJson(samples)},
          {"divergence", DivergenceJson(samples)},
          {"layer_sensitivity", LayerSensitivityJson(store, run)},
          {"needles", NeedlesJson(samples)},
          {"needle_cells", NeedleCellsJson(samples, rules)},
          {"free_run", FreeRunJson(samples)},
          {"speed", SpeedJson(store, run)},
          {"memory", memory},
          {"verdicts", VerdictsJson(samples, rules, control_failed)},
          {"calibration_effect", CalibrationEffect(samples)},
          {"controls", controls},
          {"rules", DescribeRules(rules)},
          {"not_measured", NotMeasured(samples)}};
}

VerdictKind VerdictOf(const Json& report, const std::string& group) {
  for (const Json& row : report.at("verdicts")) {
    if (row.at("group") != group) continue;
    for (const VerdictKind kind : {VerdictKind::kShip, VerdictKind::kCanary,
                                   VerdictKind::kDoNotShip, VerdictKind::kInconclusive}) {
      if (row.at("verdict") == VerdictName(kind)) return kind;
    }
  }
  return VerdictKind::kInconclusive;
}

}  // namespace kvant
