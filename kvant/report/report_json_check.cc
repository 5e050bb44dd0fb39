#include "kvant/report/report_json_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kvant/core/error.h"

namespace kvant {

namespace {

enum class FieldKind { kText, kTexts, kFlag, kCount, kCounts, kNumber, kObject, kRows };
enum class Presence { kRequired, kNullable, kOptional };

struct FieldRule {
  std::string name;
  FieldKind kind;
  Presence presence = Presence::kRequired;
  std::vector<FieldRule> fields = {};  // of an object, or of each row
};
using FieldRules = std::vector<FieldRule>;

FieldRule Text(const char* name) { return {name, FieldKind::kText}; }
FieldRule Count(const char* name) { return {name, FieldKind::kCount}; }
// A measurement: null where there was not enough evidence.
FieldRule Measured(const char* name) { return {name, FieldKind::kNumber, Presence::kNullable}; }
FieldRule Optional(const char* name, FieldKind kind) { return {name, kind, Presence::kOptional}; }
FieldRule Rows(const char* name, FieldRules fields) {
  return {name, FieldKind::kRows, Presence::kRequired, std::move(fields)};
}
FieldRule Object(const char* name, FieldRules fields, Presence presence = Presence::kRequired) {
  return {name, FieldKind::kObject, presence, std::move(fields)};
}

FieldRule ModelRule() {
  FieldRules fields = {Text("name"), Text("sha256"), Optional("architecture", FieldKind::kText),
                       Optional("k_bias", FieldKind::kFlag)};
  for (const char* name : {"layers", "kv_heads", "query_heads", "head_dim", "context_length",
                           "sliding_window_layers"}) {
    fields.push_back(Optional(name, FieldKind::kCount));
  }
  return Object("model", fields);
}

FieldRule EnvironmentRule() {
  FieldRules fields;
  for (const char* name : {"cpu", "isa", "os", "compiler"}) {
    fields.push_back(Optional(name, FieldKind::kText));
  }
  for (const char* name : {"cpus", "threads", "memory_budget_bytes"}) {
    fields.push_back(Optional(name, FieldKind::kCount));
  }
  return Object("environment", fields);
}

FieldRule ConfigRule() {
  const FieldRules calibration = {Text("sha256"), Count("tokens"), Count("sequences"),
                                  Optional("apart_from_evaluation", FieldKind::kFlag)};
  return Object("config", {Text("preset"),
                           Count("seed"),
                           {"buckets", FieldKind::kCounts},
                           Text("baseline"),
                           Text("candidate"),
                           Text("command"),
                           Text("digest"),
                           Object("calibration", calibration, Presence::kNullable),
                           Object("evaluation", {Text("sha256"), Count("tokens")})});
}

FieldRule GroupsRule() {
  const FieldRules counts = {Count("values"), Count("saturated"), Count("clipped"),
                             Count("non_finite")};
  return Rows("groups",
              {Text("name"), Text("plan"), Text("digest"), Text("description"), Text("role"),
               Text("scale_source"), Measured("bytes_per_token_formula"),
               Measured("bytes_per_token_measured"), Measured("bits_per_value"),
               Optional("measured_at_tokens", FieldKind::kCount),
               Object("sequences_that_fit", {Count("tokens"), Count("count")}, Presence::kNullable),
               Object("k", counts, Presence::kNullable), Object("v", counts, Presence::kNullable),
               Rows("layers", {Count("layer"), Count("k_saturated"), Count("v_saturated"),
                               Count("k_non_finite"), Count("v_non_finite")})});
}

FieldRule DivergenceRule() {
  FieldRules fields = {Text("group"), Count("bucket"), Count("documents"), Count("positions"),
                       Optional("non_finite", FieldKind::kCount)};
  for (const char* name : {"mean_kld", "mean_low", "mean_high", "median", "p99", "p999", "max",
                           "same_top1", "same_top1_low", "same_top1_high", "perplexity",
                           "perplexity_baseline", "perplexity_ratio"}) {
    fields.push_back(Measured(name));
  }
  fields.push_back(Rows("by_position", {Count("from"), Count("to"), Count("positions"),
                                        Measured("mean_kld"), Measured("same_top1")}));
  fields.push_back(
      Object("decode_check",
             {Count("positions"), Measured("mean_kld_prefill_vs_decode"), Measured("same_top1")},
             Presence::kNullable));
  return Rows("divergence", fields);
}

FieldRules NeedleRules() {
  const FieldRules scores = {Measured("score"), Measured("baseline_score"), Measured("difference")};
  FieldRules needle = {Text("group"), Count("bucket"), Measured("depth"), Count("n")};
  FieldRules cell = {Text("group"),
                     Count("bucket"),
                     Count("n"),
                     Count("haystacks"),
                     Measured("low"),
                     Measured("high"),
                     {"discriminative", FieldKind::kFlag},
                     Measured("p_value"),
                     Optional("haystacks_lost", FieldKind::kCount),
                     Optional("haystacks_won", FieldKind::kCount)};
  needle.insert(needle.end(), scores.begin(), scores.end());
  cell.insert(cell.end(), scores.begin(), scores.end());
  return {Rows("needles", needle), Rows("needle_cells", cell)};
}

FieldRule MemoryRule() {
  FieldRules fields;
  for (const char* name :
       {"budget_bytes", "weights_bytes", "workspace_bytes", "logits_bytes", "tokenizer_bytes",
        "pool_bytes", "peak_process_bytes", "fragmented_bytes", "used_bytes"}) {
    fields.push_back(Measured(name));
  }
  return Object("memory", fields, Presence::kNullable);
}

FieldRules ReportRules() {
  const FieldRules tpot = {Count("context"), Measured("ms"), Optional("low", FieldKind::kNumber),
                           Optional("high", FieldKind::kNumber)};
  FieldRules rules = {
      Text("schema"),
      Text("kvant_version"),
      Text("created"),
      {"complete", FieldKind::kFlag},
      ModelRule(),
      EnvironmentRule(),
      ConfigRule(),
      GroupsRule(),
      DivergenceRule(),
      {"layer_sensitivity",
       FieldKind::kRows,
       Presence::kNullable,
       {Text("group"), Count("layer"), Measured("mean_kld")}},
      Rows("free_run", {Text("group"), Count("n"), Count("tokens"), Measured("mean_agreement"),
                        Measured("median_agreement"), Measured("repetition"),
                        Measured("baseline_repetition"), Measured("truncated")}),
      Rows("speed",
           {Text("group"), Rows("ttft", {Count("tokens"), Measured("ms")}), Rows("tpot", tpot)}),
      MemoryRule(),
      Rows("verdicts", {Text("group"),
                        Text("verdict"),
                        Text("deciding_cell"),
                        {"reasons", FieldKind::kTexts},
                        {"would_decide", FieldKind::kTexts}}),
      Object("calibration_effect", {Text("verdict"), Text("text")}),
      Object("controls",
             {Object("negative", {Text("group"), {"failed", FieldKind::kFlag}, Text("text")},
                     Presence::kNullable)}),
      {"rules", FieldKind::kTexts},
      {"not_measured", FieldKind::kTexts}};
  for (const FieldRule& rule : NeedleRules()) rules.push_back(rule);
  return rules;
}

[[noreturn]] void Refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, fmt::format("report: {} {}", path, what),
              "make it again with kvant report");
}

bool IsCount(const Json& value) {
  return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
}

bool IsNumber(const Json& value) { return value.is_number() && std::isfinite(value.get<double>()); }

void CheckElements(const Json& value, const std::string& path, const char* what,
                   bool (*accepts)(const Json&)) {
  if (!value.is_array()) Refuse(path, "is not a list");
  for (size_t i = 0; i < value.size(); ++i) {
    if (!accepts(value[i])) Refuse(fmt::format("{}[{}]", path, i), what);
  }
}

void CheckObject(const Json& object, const FieldRules& rules, const std::string& path);

void CheckRows(const Json& rows, const FieldRules& rules, const std::string& path) {
  if (!rows.is_array()) Refuse(path, "is not a list");
  for (size_t i = 0; i < rows.size(); ++i) {
    CheckObject(rows[i], rules, fmt::format("{}[{}]", path, i));
  }
}

void CheckValue(const Json& value, const FieldRule& rule, const std::string& path) {
  switch (rule.kind) {
    case FieldKind::kText:
      if (!value.is_string()) Refuse(path, "is not a text");
      return;
    case FieldKind::kTexts:
      return CheckElements(value, path, "is not a text",
                           [](const Json& v) { return v.is_string(); });
    case FieldKind::kFlag:
      if (!value.is_boolean()) Refuse(path, "is neither true nor false");
      return;
    case FieldKind::kCount:
      if (!IsCount(value)) Refuse(path, "is not a count");
      return;
    case FieldKind::kCounts:
      return CheckElements(value, path, "is not a count", IsCount);
    case FieldKind::kNumber:
      if (!IsNumber(value)) Refuse(path, "is not a finite number");
      return;
    case FieldKind::kObject:
      return CheckObject(value, rule.fields, path);
    case FieldKind::kRows:
      return CheckRows(value, rule.fields, path);
  }
}

void CheckObject(const Json& object, const FieldRules& rules, const std::string& path) {
  if (!object.is_object()) Refuse(path.empty() ? "the document" : path, "is not an object");
  for (const FieldRule& rule : rules) {
    const std::string field = path.empty() ? rule.name : path + "." + rule.name;
    const auto it = object.find(rule.name);
    if (it == object.end()) {
      if (rule.presence == Presence::kOptional) continue;
      Refuse(field, "is missing");
    }
    if (it->is_null() && rule.presence != Presence::kRequired) continue;
    CheckValue(*it, rule, field);
  }
}

void CheckWord(const Json& row, const char* field, const std::string& path,
               const std::vector<std::string>& words) {
  const auto& word = row.at(field).get_ref<const std::string&>();
  if (std::find(words.begin(), words.end(), word) != words.end()) return;
  Refuse(fmt::format("{}.{}", path, field), fmt::format("is '{}'", word));
}

std::set<std::string> CheckGroupNames(const Json& groups) {
  std::set<std::string> names;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string path = fmt::format("groups[{}]", i);
    CheckWord(groups[i], "role", path,
              {"baseline", "candidate", "group", "negative_control", "floor"});
    if (!names.insert(groups[i].at("name").get<std::string>()).second) {
      Refuse(path + ".name", "stands twice");
    }
  }
  return names;
}

void CheckGroupReferences(const Json& report, const std::set<std::string>& names) {
  for (const char* key : {"divergence", "layer_sensitivity", "needles", "needle_cells", "free_run",
                          "speed", "verdicts"}) {
    const Json& rows = report.at(key);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (names.contains(rows[i].at("group").get<std::string>())) continue;
      Refuse(fmt::format("{}[{}].group", key, i), "names no group of the report");
    }
  }
}

}  // namespace

void CheckReportJson(const Json& report) {
  static const FieldRules rules = ReportRules();
  CheckObject(report, rules, "");
  CheckWord(report, "schema", "the document", {"kvant-report/1"});
  CheckGroupReferences(report, CheckGroupNames(report.at("groups")));
  const Json& verdicts = report.at("verdicts");
  for (size_t i = 0; i < verdicts.size(); ++i) {
    CheckWord(verdicts[i], "verdict", fmt::format("verdicts[{}]", i),
              {"ship", "canary", "do not ship", "inconclusive"});
  }
}

Json ParseReport(std::string_view text, std::string_view source) {
  Json report = ParseJson(text, source);
  try {
    CheckReportJson(report);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", source, error.message()), error.hint());
  }
  return report;
}

}  // namespace kvant
