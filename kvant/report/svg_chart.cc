#include "kvant/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvant/report/chart_axis.h"

namespace kvant {

namespace {

constexpr double kLargestDrawn = 1e15;

// The plot's rectangle in the viewBox, in user units.
constexpr double kWidth = 400;
constexpr double kHeight = 300;
constexpr double kLeft = 52;
constexpr double kRight = 392;
constexpr double kTop = 24;
constexpr double kBottom = 252;

std::string Coordinate(double value) { return fmt::format("{:.1f}", value); }

bool Drawn(const ChartPoint& point) {
  return std::fabs(point.x) <= kLargestDrawn && std::fabs(point.y) <= kLargestDrawn;
}

class LinePlot {
 public:
  LinePlot(const LineChart& chart, HtmlWriter* page)
      : chart_(chart),
        page_(page),
        x_(chart.log_x ? AxisScale::kPowersOfTwo : AxisScale::kLinear, Values(chart, true)),
        y_(chart.log_y ? AxisScale::kPowersOfTen : AxisScale::kLinear, Values(chart, false)) {}

  void Write() {
    WriteAxes();
    for (const ChartSeries& series : chart_.series) {
      if (series.area) WriteArea(series);
    }
    for (const ChartSeries& series : chart_.series) WriteSeries(series);
  }

 private:
  static std::vector<double> Values(const LineChart& chart, bool x) {
    std::vector<double> values;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!Drawn(point)) continue;
        values.push_back(x ? point.x : point.y);
        if (!x && point.high && *point.high <= kLargestDrawn) values.push_back(*point.high);
      }
    }
    return values;
  }

  double X(double value) const { return kLeft + x_.Position(value) * (kRight - kLeft); }
  double Y(double value) const { return kBottom - y_.Position(value) * (kBottom - kTop); }

  void Line(double x1, double y1, double x2, double y2, const std::string& css_class) {
    page_->Element("line", "",
                   {{"class", css_class},
                    {"x1", Coordinate(x1)},
                    {"y1", Coordinate(y1)},
                    {"x2", Coordinate(x2)},
                    {"y2", Coordinate(y2)}});
  }

  void Label(double x, double y, const std::string& anchor, const std::string& text) {
    page_->Element("text", text,
                   {{"x", Coordinate(x)}, {"y", Coordinate(y)}, {"text-anchor", anchor}});
  }

  void WriteAxes() {
    for (const double tick : y_.ticks()) {
      Line(kLeft, Y(tick), kRight, Y(tick), "grid");
      Label(kLeft - 6, Y(tick) + 4, "end", y_.TickText(tick));
    }
    for (const double tick : x_.ticks()) {
      Line(X(tick), kBottom, X(tick), kBottom + 5, "axis");
      const bool last = tick == x_.ticks().back();
      Label(X(tick), kBottom + 19, last ? "end" : "middle", x_.TickText(tick));
    }
    Line(kLeft, kBottom, kRight, kBottom, "axis");
    Label(kRight, kHeight - 8, "end", chart_.x_label);
    Label(0, 12, "start", chart_.y_label);
  }

  void WriteArea(const ChartSeries& series) {
    std::string points;
    double first = 0;
    double last = 0;
    for (const ChartPoint& point : series.points) {
      if (!Drawn(point)) continue;
      last = X(point.x);
      if (points.empty()) first = last;
      points += fmt::format("{:.1f},{:.1f} ", last, Y(point.y));
    }
    points += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f}", last, kBottom, first, kBottom);
    page_->Element("polygon", "", {{"class", "area " + series.css_class}, {"points", points}});
  }

  void WriteSeries(const ChartSeries& series) {
    page_->Open("g", {{"class", series.css_class}});
    page_->Element("title", series.name);
    std::string points;
    for (const ChartPoint& point : series.points) {
      if (!Drawn(point)) continue;
      points += fmt::format("{:.1f},{:.1f} ", X(point.x), Y(point.y));
      if (point.low && point.high) {
        Line(X(point.x), Y(*point.low), X(point.x), Y(*point.high), "whisker");
      }
      page_->Element("circle", "",
                     {{"cx", Coordinate(X(point.x))}, {"cy", Coordinate(Y(point.y))}, {"r", "3"}});
    }
    page_->Element("polyline", "", {{"points", points}});
    page_->Close();
  }

  const LineChart& chart_;
  HtmlWriter* page_;
  ChartAxis x_;
  ChartAxis y_;
};

// Opens figure and svg; the title and description name the picture for screen readers.
void OpenFigure(const std::string& title, const std::string& description, double height,
                HtmlWriter* page) {
  const std::string title_id = page->NewId();
  const std::string description_id = page->NewId();
  page->Open("figure");
  page->Element("figcaption", title);
  page->Open("svg", {{"viewBox", fmt::format("0 0 {} {}", kWidth, height)},
                     {"role", "img"},
                     {"aria-labelledby", title_id + " " + description_id}});
  page->Element("title", title, {{"id", title_id}});
  page->Element("desc", description, {{"id", description_id}});
}

void WriteLegend(const LineChart& chart, HtmlWriter* page) {
  page->Open("ul", {{"class", "legend"}});
  for (const ChartSeries& series : chart.series) {
    if (series.points.empty()) continue;
    page->Open("li");
    page->Open("svg", {{"viewBox", "0 0 28 10"}, {"aria-hidden", "true"}});
    page->Open("g", {{"class", series.css_class}});
    page->Element("polyline", "", {{"points", "0,5 28,5"}});
    page->Element("circle", "", {{"cx", "14"}, {"cy", "5"}, {"r", "3"}});
    page->Close();
    page->Close();
    page->Text(series.name);
    page->Close();
  }
  page->Close();
}

constexpr double kBarRow = 40;  // name above, bar below
constexpr double kBarWidth = 300;

// `scale`: user units per unit of value.
void WriteBar(const ChartBar& bar, double top, double scale, HtmlWriter* page) {
  constexpr size_t kNameCharacters = 50;
  const auto length = [&](double value) {
    return std::isfinite(value) && value > 0 ? std::min(kBarWidth, value * scale) : 0.0;
  };
  const double end = length(bar.value);
  const double mark = length(bar.mark.value_or(0));
  page->Open("g", {{"class", "bar " + bar.css_class}});
  page->Element("text", Shortened(bar.name, kNameCharacters),
                {{"x", "0"}, {"y", Coordinate(top + 13)}});
  page->Element(
      "rect", "",
      {{"x", "0"}, {"y", Coordinate(top + 18)}, {"width", Coordinate(end)}, {"height", "15"}});
  if (bar.mark) {
    page->Element("line", "",
                  {{"class", "mark"},
                   {"x1", Coordinate(mark)},
                   {"x2", Coordinate(mark)},
                   {"y1", Coordinate(top + 15)},
                   {"y2", Coordinate(top + 36)}});
  }
  page->Element("text", bar.label,
                {{"x", Coordinate(std::max(end, mark) + 8)}, {"y", Coordinate(top + 30)}});
  page->Close();
}

}  // namespace

void WriteLineChart(const LineChart& chart, HtmlWriter* page) {
  const bool any = std::any_of(chart.series.begin(), chart.series.end(), [](const auto& series) {
    return std::any_of(series.points.begin(), series.points.end(), Drawn);
  });
  if (!any) return;
  OpenFigure(chart.title, chart.description, kHeight, page);
  LinePlot(chart, page).Write();
  page->Close();
  WriteLegend(chart, page);
  page->Close();
}

void WriteBarChart(const BarChart& chart, HtmlWriter* page) {
  if (chart.bars.empty()) return;
  double most = 0;
  for (const ChartBar& bar : chart.bars) {
    if (std::isfinite(bar.value)) most = std::max({most, bar.value, bar.mark.value_or(0)});
  }
  OpenFigure(chart.title, chart.description, kBarRow * static_cast<double>(chart.bars.size()),
             page);
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    WriteBar(chart.bars[i], kBarRow * static_cast<double>(i), most > 0 ? kBarWidth / most : 0,
             page);
  }
  page->Close();
  page->Close();
}

}  // namespace kvant
