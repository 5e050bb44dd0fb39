#include "kvant/report/generation_section.h"

#include <fmt/format.h>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"

namespace kvant {

void WriteGenerationSection(const Json& report, HtmlWriter* page) {
  Table table;
  table.caption = fmt::format(
      "Greedy continuations of the same prompts; agreement is the number of first tokens equal to "
      "those of {}.",
      BaselineName(report));
  table.columns = {"Group",
                   "Prompts",
                   "Tokens each",
                   "Agreement, mean",
                   "Agreement, median",
                   "Ended in a loop",
                   "Baseline in a loop",
                   "Ended early"};
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    const Json& row = RowFor(report, "free_run", name);
    if (row.is_null()) continue;
    table.rows.push_back({{name, "", ""},
                          {CountText(NumberAt(row, "n")), "", ""},
                          {CountText(NumberAt(row, "tokens")), "", ""},
                          {ValueText(NumberAt(row, "mean_agreement")), "", ""},
                          {ValueText(NumberAt(row, "median_agreement")), "", ""},
                          {PercentText(NumberAt(row, "repetition")), "", ""},
                          {PercentText(NumberAt(row, "baseline_repetition")), "", ""},
                          {PercentText(NumberAt(row, "truncated")), "", ""}});
  }
  page->Open("section");
  page->Element("h2", "Free-running generation");
  WriteTable(table, page);
  if (table.rows.empty()) page->Element("p", "Not measured: nothing was generated.");
  page->Close();
}

}  // namespace kvant
