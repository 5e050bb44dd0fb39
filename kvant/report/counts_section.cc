#include "kvant/report/counts_section.h"

#include <fmt/format.h>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"

namespace kvant {

namespace {

TableCell CountCell(const Json& counts, const char* key) {
  const auto count = NumberAt(counts, key);
  const auto share = Ratio(count, NumberAt(counts, "values"));
  const bool some = count && *count > 0;
  return {CountText(count), some && share ? ValueText(100 * *share) + " %" : "",
          some ? "alarm" : ""};
}

void WriteTotals(const Json& report, HtmlWriter* page) {
  Table table;
  table.caption = "Values written to the cache while scoring all documents of all buckets.";
  table.columns = {"Group and stream", "Values", "Saturated", "Clipped", "NaN or infinite"};
  for (const Json* group : GroupsInOrder(report)) {
    for (const auto& [key, stream] : {std::pair("k", "K"), std::pair("v", "V")}) {
      const Json& counts = Field(*group, key);
      if (!counts.is_object()) continue;
      table.rows.push_back(
          {{fmt::format("{}, {}", TextAt(*group, "name", "unnamed"), stream), "", ""},
           {CountText(NumberAt(counts, "values")), "", ""},
           CountCell(counts, "saturated"),
           CountCell(counts, "clipped"),
           CountCell(counts, "non_finite")});
    }
  }
  if (table.rows.empty()) page->Element("p", "Not measured.");
  WriteTable(table, page);
}

// Only layers that counted something: most counts are zero.
void WriteLayers(const Json& report, HtmlWriter* page) {
  Table table;
  table.caption = "Layers where a value was saturated, NaN or infinite; all others counted none.";
  table.columns = {
      "Group", "Layer", "K saturated", "V saturated", "K NaN or infinite", "V NaN or infinite"};
  for (const Json* group : GroupsInOrder(report)) {
    for (const Json& layer : RowsAt(*group, "layers")) {
      std::vector<TableCell> cells = {{TextAt(*group, "name", "unnamed"), "", ""},
                                      {CountText(NumberAt(layer, "layer")), "", ""}};
      bool any = false;
      for (const char* key : {"k_saturated", "v_saturated", "k_non_finite", "v_non_finite"}) {
        const auto count = NumberAt(layer, key);
        any = any || (count && *count > 0);
        cells.push_back({CountText(count), "", ""});
      }
      if (any) table.rows.push_back(cells);
    }
  }
  if (table.rows.empty()) {
    page->Element("p", "No layer of any group counted a saturated, NaN or infinite value.");
  }
  WriteFoldedTable("Counts by layer", table, page);
}

}  // namespace

void WriteCountsSection(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Values beyond the format's range");
  WriteTotals(report, page);
  WriteLayers(report, page);
  page->Close();
}

}  // namespace kvant
