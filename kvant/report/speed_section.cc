#include "kvant/report/speed_section.h"

#include <fmt/format.h>

#include <set>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"
#include "kvant/report/svg_chart.h"

namespace kvant {

namespace {

// What differs between the two tables and charts of this section.
struct SpeedMeasure {
  const char* rows;    // field of a speed row
  const char* length;  // field of its points
  const char* title;
  const char* chart_title;
  const char* x_label;
  const char* caption;
};

constexpr SpeedMeasure kTpot = {
    "tpot",
    "context",
    "Time per output token by context depth",
    "Milliseconds per output token, by tokens in the cache",
    "tokens in the cache before the step",
    "Milliseconds per output token, one stream, by tokens already in "
    "the cache; 95 % intervals.",
};
constexpr SpeedMeasure kTtft = {
    "ttft",
    "tokens",
    "Time to first token by prompt length",
    "Milliseconds to the first token, by prompt tokens",
    "prompt tokens",
    "Milliseconds to the first token, one stream, by prompt tokens.",
};

void WriteChart(const Json& report, const SpeedMeasure& measure, HtmlWriter* page) {
  LineChart chart;
  chart.title = measure.chart_title;
  chart.x_label = measure.x_label;
  chart.y_label = "milliseconds";
  chart.description = "One line per group; the table below holds the numbers. ";
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    ChartSeries series = {name, SeriesClass(report, name), {}, false};
    for (const Json& point : RowsAt(RowFor(report, "speed", name), measure.rows)) {
      const auto x = NumberAt(point, measure.length);
      const auto y = NumberAt(point, "ms");
      if (x && y) {
        series.points.push_back({*x, *y, NumberAt(point, "low"), NumberAt(point, "high")});
      }
    }
    if (series.points.empty()) continue;
    chart.description +=
        fmt::format("{} goes from {} to {} ms. ", name, ValueText(series.points.front().y),
                    ValueText(series.points.back().y));
    chart.series.push_back(series);
  }
  WriteLineChart(chart, page);
}

std::set<double> Lengths(const Json& report, const SpeedMeasure& measure) {
  std::set<double> lengths;
  for (const Json& row : RowsAt(report, "speed")) {
    for (const Json& point : RowsAt(row, measure.rows)) {
      if (const auto length = NumberAt(point, measure.length)) lengths.insert(*length);
    }
  }
  return lengths;
}

TableCell SpeedCell(const Json& row, const SpeedMeasure& measure, double length) {
  for (const Json& point : RowsAt(row, measure.rows)) {
    if (NumberAt(point, measure.length) != length) continue;
    return {ValueText(NumberAt(point, "ms")),
            IntervalText(NumberAt(point, "low"), NumberAt(point, "high"), 0), ""};
  }
  return {"—", "not measured", ""};
}

void WriteMeasure(const Json& report, const SpeedMeasure& measure, HtmlWriter* page) {
  page->Element("h3", measure.title);
  Table table;
  table.caption = measure.caption;
  table.columns = {"Group"};
  const std::set<double> lengths = Lengths(report, measure);
  if (lengths.empty()) {
    page->Element("p", "Not measured.");
    return;
  }
  for (const double length : lengths) table.columns.push_back(TokensText(length));
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    const Json& row = RowFor(report, "speed", name);
    if (row.is_null()) continue;
    std::vector<TableCell> cells = {{name, "", ""}};
    for (const double length : lengths) cells.push_back(SpeedCell(row, measure, length));
    table.rows.push_back(cells);
  }
  WriteChart(report, measure, page);
  WriteTable(table, page);
}

}  // namespace

void WriteSpeedSection(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Speed");
  WriteMeasure(report, kTpot, page);
  WriteMeasure(report, kTtft, page);
  page->Close();
}

}  // namespace kvant
