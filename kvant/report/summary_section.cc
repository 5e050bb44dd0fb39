#include "kvant/report/summary_section.h"

#include <fmt/format.h>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"

namespace kvant {

namespace {

std::optional<double> Longest(const std::vector<double>& ascending) {
  return ascending.empty() ? std::nullopt : std::optional(ascending.back());
}

std::string RoleText(const std::string& role) {
  if (role == "negative_control") return "negative control";
  if (role == "floor") return "noise floor";
  return role == "group" ? "" : role;
}

TableCell ByteCell(const Json& group) {
  const auto measured = NumberAt(group, "bytes_per_token_measured");
  const auto formula = NumberAt(group, "bytes_per_token_formula");
  if (!measured) return {CountText(formula), "formula; not measured", ""};
  return {CountText(measured), "formula " + CountText(formula), ""};
}

TableCell KldCell(const Json& row) {
  const auto mean = NumberAt(row, "mean_kld");
  if (!mean) return {"—", "not measured", ""};
  return {ValueText(mean), IntervalText(NumberAt(row, "mean_low"), NumberAt(row, "mean_high"), 0),
          ""};
}

TableCell TopOneCell(const Json& row) {
  const auto documents = NumberAt(row, "documents");
  if (!NumberAt(row, "same_top1")) return {"—", "not measured", ""};
  return {
      PercentText(NumberAt(row, "same_top1")),
      fmt::format("n {} in {} docs", CountText(NumberAt(row, "positions")), CountText(documents)),
      ""};
}

TableCell NeedleSummary(const Json& row) {
  if (!NumberAt(row, "score")) return {"—", "not measured", ""};
  const bool blind = FlagAt(row, "discriminative") == false;
  return {PercentText(NumberAt(row, "score")),
          fmt::format("baseline {}, n {}{}", PercentText(NumberAt(row, "baseline_score")),
                      CountText(NumberAt(row, "n")), blind ? ", cannot discriminate" : ""),
          blind ? "blind" : ""};
}

// The TPOT of the deepest context.
TableCell TpotCell(const Json& row) {
  const Json* deepest = nullptr;
  for (const Json& point : RowsAt(row, "tpot")) {
    const auto context = NumberAt(point, "context");
    if (context && (!deepest || *context > *NumberAt(*deepest, "context"))) deepest = &point;
  }
  if (!deepest) return {"—", "not measured", ""};
  return {MillisecondsText(NumberAt(*deepest, "ms")),
          "at " + TokensText(NumberAt(*deepest, "context")), ""};
}

}  // namespace

void WriteSummarySection(const Json& report, HtmlWriter* page) {
  const auto bucket = Longest(DistinctNumbers(report, "divergence", "bucket"));
  const auto needle_bucket = Longest(DistinctNumbers(report, "needle_cells", "bucket"));
  const std::string baseline = BaselineName(report);
  std::optional<double> baseline_bytes;
  for (const Json& group : RowsAt(report, "groups")) {
    if (TextAt(group, "name") == baseline) {
      baseline_bytes = NumberAt(group, "bytes_per_token_formula");
    }
  }
  Table table;
  table.caption = fmt::format(
      "Divergence from {} over the second half of documents of {} tokens, with 95 % intervals; "
      "needles at {} tokens, all depths.",
      baseline, TokensText(bucket), TokensText(needle_bucket));
  table.columns = {
      "Group",          "Bits per value",   "Bytes per token", "Memory against baseline",
      "Mean KLD, nats", "Same top-1 token", "Needles found",   "Time per output token"};
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name", "unnamed");
    table.rows.push_back(
        {{name, RoleText(TextAt(*group, "role")), ""},
         {ValueText(NumberAt(*group, "bits_per_value")), "", ""},
         ByteCell(*group),
         {TimesText(Ratio(NumberAt(*group, "bytes_per_token_formula"), baseline_bytes)), "", ""},
         name == baseline ? TableCell{"0", "by definition", ""}
                          : KldCell(RowFor(report, "divergence", name, bucket)),
         name == baseline ? TableCell{"100 %", "by definition", ""}
                          : TopOneCell(RowFor(report, "divergence", name, bucket)),
         NeedleSummary(RowFor(report, "needle_cells", name, needle_bucket)),
         TpotCell(RowFor(report, "speed", name))});
  }
  page->Open("section");
  page->Element("h2", "Groups side by side");
  WriteTable(table, page);
  if (table.rows.empty()) page->Element("p", "Not measured: the run holds no groups.");
  page->Close();
}

}  // namespace kvant
