#include "kvant/report/needle_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"

namespace kvant {

namespace {

// Colour by lost or won percentage points.
std::string ShadeOf(double difference) {
  if (difference <= -0.3) return "loss3";
  if (difference <= -0.1) return "loss2";
  if (difference < -0.005) return "loss1";
  if (difference >= 0.1) return "gain2";
  return difference > 0.005 ? "gain1" : "";
}

const Json& CellAt(const Json& report, const std::string& group, double bucket, double depth) {
  for (const Json& row : RowsAt(report, "needles")) {
    if (TextAt(row, "group") == group && NumberAt(row, "bucket") == bucket &&
        NumberAt(row, "depth") == depth) {
      return row;
    }
  }
  static const Json none;
  return none;
}

bool Blind(const Json& report, const std::string& group, double bucket) {
  return FlagAt(RowFor(report, "needle_cells", group, bucket), "discriminative") == false;
}

TableCell HeatCell(const Json& row, bool blind) {
  const auto difference = NumberAt(row, "difference");
  if (!difference) return {"—", "not measured", ""};
  return {PointsText(difference),
          fmt::format("{} / {}, n {}", PercentText(NumberAt(row, "score")),
                      PercentText(NumberAt(row, "baseline_score")), CountText(NumberAt(row, "n"))),
          blind ? "blind" : ShadeOf(*difference)};
}

TableCell PooledCell(const Json& row, bool blind) {
  const auto difference = NumberAt(row, "difference");
  if (!difference) return {"—", "not measured", ""};
  const auto low = NumberAt(row, "low");
  const auto high = NumberAt(row, "high");
  const std::string interval =
      low && high ? fmt::format("[{}, {}], ", PointsText(low), PointsText(high)) : "";
  return {PointsText(difference),
          fmt::format("{}n {} in {} haystacks, p {}", interval, CountText(NumberAt(row, "n")),
                      CountText(NumberAt(row, "haystacks")), ValueText(NumberAt(row, "p_value"))),
          blind ? "blind" : ""};
}

std::vector<std::string> Columns(const Json& report, const std::string& group,
                                 const std::vector<double>& buckets) {
  std::vector<std::string> columns = {"Depth"};
  for (const double bucket : buckets) {
    columns.push_back(TokensText(bucket) + " tokens" +
                      (Blind(report, group, bucket) ? ": cannot discriminate" : ""));
  }
  return columns;
}

void WriteHeatMap(const Json& report, const std::string& group, HtmlWriter* page) {
  const std::vector<double> buckets = DistinctNumbers(report, "needles", "bucket");
  Table table;
  table.caption =
      fmt::format("{} − {}, percentage points of needles found", group, BaselineName(report));
  table.columns = Columns(report, group, buckets);
  for (const double depth : DistinctNumbers(report, "needles", "depth")) {
    std::vector<TableCell> cells = {{PercentText(depth), "", ""}};
    for (const double bucket : buckets) {
      cells.push_back(HeatCell(CellAt(report, group, bucket, depth), Blind(report, group, bucket)));
    }
    table.rows.push_back(cells);
  }
  std::vector<TableCell> pooled = {{"All depths", "", ""}};
  for (const double bucket : buckets) {
    pooled.push_back(
        PooledCell(RowFor(report, "needle_cells", group, bucket), Blind(report, group, bucket)));
  }
  table.rows.push_back(pooled);
  WriteTable(table, page);
}

}  // namespace

void WriteNeedleSection(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Retrieval by length and depth");
  if (RowsAt(report, "needles").empty()) {
    page->Element("p", "Not measured: no haystack was asked.");
    page->Close();
    return;
  }
  page->Element("p",
                "Each cell: the difference from the baseline, then the group's score / the "
                "baseline's own score and the number of questions n. Depth 0 % is the start of the "
                "haystack. Hatched cells cannot discriminate: the baseline itself finds too few. "
                "Intervals are 95 %; p is of the paired test for a loss.");
  page->Open("div", {{"class", "maps"}});
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    if (name == BaselineName(report) || RowFor(report, "needles", name).is_null()) continue;
    WriteHeatMap(report, name, page);
  }
  page->Close();
  page->Close();
}

}  // namespace kvant
