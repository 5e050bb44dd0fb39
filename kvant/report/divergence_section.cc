#include "kvant/report/divergence_section.h"

#include <fmt/format.h>

#include <cmath>

#include "kvant/report/html_table.h"
#include "kvant/report/number_text.h"
#include "kvant/report/report_fields.h"
#include "kvant/report/svg_chart.h"

namespace kvant {

namespace {

std::string RangeText(const Json& row) {
  return fmt::format("{}–{}", TokensText(NumberAt(row, "from")), TokensText(NumberAt(row, "to")));
}

// Ranges double in length, so their middle is the geometric one.
std::vector<ChartPoint> PositionPoints(const Json& row) {
  std::vector<ChartPoint> points;
  for (const Json& range : RowsAt(row, "by_position")) {
    const auto from = NumberAt(range, "from");
    const auto to = NumberAt(range, "to");
    const auto kld = NumberAt(range, "mean_kld");
    if (!from || !to || !kld || *to <= 0) continue;
    const double start = *from > 0 ? *from : *to / 2;
    points.push_back({std::sqrt(start * *to), *kld, std::nullopt, std::nullopt});
  }
  return points;
}

void WritePositionChart(const Json& report, double bucket, HtmlWriter* page) {
  LineChart chart;
  chart.title = fmt::format("Mean KLD from {} by position, documents of {} tokens",
                            BaselineName(report), TokensText(bucket));
  chart.x_label = "position in the document, tokens";
  chart.y_label = "mean KLD, nats (logarithmic)";
  chart.log_x = chart.log_y = true;
  chart.description = "One line per group; the table below holds the numbers. ";
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    const bool floor = TextAt(*group, "role") == "floor";
    const auto points = PositionPoints(RowFor(report, "divergence", name, bucket));
    if (points.empty()) continue;
    chart.series.push_back(
        {floor ? name + " (noise floor)" : name, SeriesClass(report, name), points, floor});
    chart.description += fmt::format("{} goes from {} to {}. ", name, ValueText(points.front().y),
                                     ValueText(points.back().y));
  }
  WriteLineChart(chart, page);
}

void WritePositionTable(const Json& report, double bucket, HtmlWriter* page) {
  Table table;
  table.caption = fmt::format(
      "Mean KLD in nats from {} and share of equal top-1 tokens by position, documents of {} "
      "tokens.",
      BaselineName(report), TokensText(bucket));
  table.columns = {"Group"};
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    const auto& ranges = RowsAt(RowFor(report, "divergence", name, bucket), "by_position");
    if (ranges.empty()) continue;
    std::vector<TableCell> cells = {{name, "", ""}};
    for (const Json& range : ranges) {
      cells.push_back({ValueText(NumberAt(range, "mean_kld")),
                       fmt::format("{}, n {}", PercentText(NumberAt(range, "same_top1")),
                                   CountText(NumberAt(range, "positions"))),
                       ""});
    }
    for (size_t i = table.columns.size(); i <= ranges.size(); ++i) {
      table.columns.push_back(RangeText(ranges[i - 1]));
    }
    table.rows.push_back(cells);
  }
  WriteFoldedTable("Numbers by position", table, page);
}

TableCell DecodeCheckCell(const Json& row) {
  const Json& check = Field(row, "decode_check");
  if (check.is_null()) return {"—", "not checked", ""};
  return {ValueText(NumberAt(check, "mean_kld_prefill_vs_decode")),
          fmt::format("top-1 {}, n {}", PercentText(NumberAt(check, "same_top1")),
                      CountText(NumberAt(check, "positions"))),
          ""};
}

std::vector<TableCell> DistributionRow(const Json& row) {
  const auto non_finite = NumberAt(row, "non_finite");
  const bool broken = non_finite && *non_finite > 0;
  return {
      {TextAt(row, "group", "unnamed"), "", ""},
      {CountText(NumberAt(row, "positions")),
       fmt::format("in {} docs", CountText(NumberAt(row, "documents"))), ""},
      {ValueText(NumberAt(row, "mean_kld")),
       IntervalText(NumberAt(row, "mean_low"), NumberAt(row, "mean_high"), 0), ""},
      {ValueText(NumberAt(row, "median")), "", ""},
      {ValueText(NumberAt(row, "p99")), "", ""},
      {ValueText(NumberAt(row, "p999")), NumberAt(row, "p999") ? "" : "too few", ""},
      {ValueText(NumberAt(row, "max")), "", ""},
      {PercentText(NumberAt(row, "same_top1")),
       PercentIntervalText(NumberAt(row, "same_top1_low"), NumberAt(row, "same_top1_high")), ""},
      {ValueText(NumberAt(row, "perplexity")),
       "against " + ValueText(NumberAt(row, "perplexity_baseline")), ""},
      {CountText(non_finite), "", broken ? "alarm" : ""},
      DecodeCheckCell(row)};
}

void WriteDistribution(const Json& report, double bucket, HtmlWriter* page) {
  Table table;
  table.caption = fmt::format(
      "KLD in nats from {}, over the second half of documents of {} tokens; 95 % intervals by "
      "document. Perplexity against the baseline's. Prefill against decode: KLD between the two "
      "ways "
      "to score the same tokens.",
      BaselineName(report), TokensText(bucket));
  table.columns = {"Group",
                   "Positions",
                   "Mean KLD",
                   "Median",
                   "99 %",
                   "99.9 %",
                   "Max",
                   "Same top-1 token",
                   "Perplexity",
                   "NaN or ∞ logits",
                   "Prefill against decode"};
  for (const Json* group : GroupsInOrder(report)) {
    const Json& row = RowFor(report, "divergence", TextAt(*group, "name"), bucket);
    if (!row.is_null()) table.rows.push_back(DistributionRow(row));
  }
  WriteTable(table, page);
}

void WriteLayers(const Json& report, HtmlWriter* page) {
  page->Element("h3", "Which layer contributes most");
  if (RowsAt(report, "layer_sensitivity").empty()) {
    page->Element("p", "Not measured.");
    return;
  }
  LineChart chart;
  chart.title = "Mean KLD with one layer quantized at a time";
  chart.x_label = "layer";
  chart.y_label = "mean KLD, nats (logarithmic)";
  chart.log_y = true;
  chart.description = "One point per layer; the table below holds the numbers.";
  Table table;
  table.caption = "Mean KLD in nats from the baseline with one layer quantized at a time.";
  table.columns = {"Group", "Layer", "Mean KLD"};
  for (const Json* group : GroupsInOrder(report)) {
    const std::string name = TextAt(*group, "name");
    ChartSeries series = {name, SeriesClass(report, name), {}, false};
    for (const Json& row : RowsAt(report, "layer_sensitivity")) {
      if (TextAt(row, "group") != name) continue;
      const auto layer = NumberAt(row, "layer");
      const auto kld = NumberAt(row, "mean_kld");
      table.rows.push_back({{name, "", ""}, {CountText(layer), "", ""}, {ValueText(kld), "", ""}});
      if (layer && kld) series.points.push_back({*layer, *kld, std::nullopt, std::nullopt});
    }
    chart.series.push_back(series);
  }
  WriteLineChart(chart, page);
  WriteFoldedTable("Numbers by layer", table, page);
}

}  // namespace

void WriteDivergenceSection(const Json& report, HtmlWriter* page) {
  const std::vector<double> buckets = DistinctNumbers(report, "divergence", "bucket");
  page->Open("section");
  page->Element("h2", "Divergence from the baseline");
  if (buckets.empty()) {
    page->Element("p", "Not measured: no document was scored.");
  } else {
    page->Element("p",
                  "KLD is the distance, in nats, between the next-token distributions of the "
                  "baseline and of the group on the same text: 0 means equal.");
    WritePositionChart(report, buckets.back(), page);
    WritePositionTable(report, buckets.back(), page);
  }
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    WriteDistribution(report, *bucket, page);
  }
  WriteLayers(report, page);
  page->Close();
}

}  // namespace kvant
