#include "kvant/report/memory_section.h"

#include <fmt/format.h>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"
#include "kvant/report/svg_chart.h"

namespace kvant {

namespace {

void WriteBars(const Json& report, HtmlWriter* page) {
  BarChart chart;
  chart.title = "KV cache bytes per token: the bar is what was measured, the line the formula";
  for (const Json* group : GroupsInOrder(report)) {
    const auto formula = NumberAt(*group, "bytes_per_token_formula");
    const auto measured = NumberAt(*group, "bytes_per_token_measured");
    if (!formula && !measured) continue;
    const std::string name = TextAt(*group, "name");
    const std::string label =
        CountText(measured ? measured : formula) + (measured ? "" : " (formula; not measured)");
    chart.bars.push_back(
        {name, SeriesClass(report, name), measured.value_or(*formula), label, formula});
    chart.description += fmt::format("{}: {} bytes per token. ", name, label);
  }
  WriteBarChart(chart, page);
}

void WriteGroups(const Json& report, HtmlWriter* page) {
  Table table;
  table.caption =
      "Bytes per token of KV cache, and how many sequences of the longest bucket the "
      "memory budget holds.";
  table.columns = {"Group",      "Measured",   "Measured at",
                   "By formula", "Difference", "Sequences that fit"};
  for (const Json* group : GroupsInOrder(report)) {
    const auto measured = NumberAt(*group, "bytes_per_token_measured");
    const auto formula = NumberAt(*group, "bytes_per_token_formula");
    const auto ratio = Ratio(measured, formula);
    const auto at = NumberAt(*group, "measured_at_tokens");
    const Json& fit = Field(*group, "sequences_that_fit");
    table.rows.push_back(
        {{TextAt(*group, "name", "unnamed"), "", ""},
         {measured ? CountText(measured) : "not measured", "", ""},
         {at ? TokensText(at) + " tokens" : "—", "", ""},
         {CountText(formula), "", ""},
         {ratio ? PointsText(*ratio - 1) + " %" : "—", "", ""},
         {CountText(NumberAt(fit, "count")),
          NumberAt(fit, "tokens") ? fmt::format("of {} tokens", TokensText(NumberAt(fit, "tokens")))
                                  : "",
          ""}});
  }
  WriteTable(table, page);
}

void WriteBudget(const Json& report, HtmlWriter* page) {
  const Json& memory = Field(report, "memory");
  if (memory.is_null()) {
    page->Element("p", "What the process used: not measured.");
    return;
  }
  const auto budget = NumberAt(memory, "budget_bytes");
  Table table;
  table.caption = "What the memory budget is spent on, and what the process reached.";
  table.columns = {"Part", "Bytes", "Of the budget"};
  const std::pair<const char*, const char*> parts[] = {{"Budget", "budget_bytes"},
                                                       {"Weights", "weights_bytes"},
                                                       {"Workspace", "workspace_bytes"},
                                                       {"Logits", "logits_bytes"},
                                                       {"Tokenizer", "tokenizer_bytes"},
                                                       {"KV block pool", "pool_bytes"},
                                                       {"Pool in use, highest", "used_bytes"},
                                                       {"Pool fragmented then", "fragmented_bytes"},
                                                       {"Process, highest", "peak_process_bytes"}};
  for (const auto& [name, key] : parts) {
    const auto bytes = NumberAt(memory, key);
    table.rows.push_back({{name, "", ""},
                          {bytes ? BytesText(bytes) : "not measured", "", ""},
                          {PercentText(Ratio(bytes, budget)), "", ""}});
  }
  WriteTable(table, page);
}

}  // namespace

void WriteMemorySection(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Memory");
  WriteBars(report, page);
  WriteGroups(report, page);
  WriteBudget(report, page);
  page->Close();
}

}  // namespace kvant
