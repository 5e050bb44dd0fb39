// Line and bar charts as inline SVG, drawn with the page's colours (page_style.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kvant/report/html_writer.h"

namespace kvant {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::optional<double> low;  // ends of an interval, drawn as a whisker
  std::optional<double> high;
};

struct ChartSeries {
  std::string name;
  std::string css_class;  // "series-0"…
  std::vector<ChartPoint> points;
  bool area = false;  // shade everything below: a noise floor
};

struct LineChart {
  std::string title;
  std::string description;  // says in words what the picture shows
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // ticks at powers of two
  bool log_y = false;  // ticks at powers of ten; zeros are drawn on the lower edge
  std::vector<ChartSeries> series;
};

// A figure with a legend below. Nothing if no series has a point. Values beyond ±1e15, which no
// measurement here reaches, are left out.
void WriteLineChart(const LineChart& chart, HtmlWriter* page);

struct ChartBar {
  std::string name;
  std::string css_class;
  double value = 0;
  std::string label;           // the value as text
  std::optional<double> mark;  // drawn as a line across the bar
};

struct BarChart {
  std::string title;
  std::string description;
  std::vector<ChartBar> bars;
};

// Nothing if there are no bars. Negative and non-finite values have no length.
void WriteBarChart(const BarChart& chart, HtmlWriter* page);

}  // namespace kvant
