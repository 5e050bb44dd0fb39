#include "kvant/report/chart_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvant/report/number_text.h"

namespace kvant {

namespace {

constexpr double kSmallestDrawn = 1e-15;
constexpr int kMostTicks = 7;

double Logarithm(AxisScale scale, double value) {
  return scale == AxisScale::kPowersOfTwo ? std::log2(value) : std::log10(value);
}

double Power(AxisScale scale, double exponent) {
  return std::pow(scale == AxisScale::kPowersOfTwo ? 2.0 : 10.0, exponent);
}

// 1, 2 or 5 times a power of ten, so that `span` takes at most five steps.
double StepFor(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (span / (power * factor) <= 5) return power * factor;
  }
  return power * 10;
}

}  // namespace

ChartAxis::ChartAxis(AxisScale scale, const std::vector<double>& values) : scale_(scale) {
  if (scale == AxisScale::kLinear) {
    MakeLinear(values);
  } else {
    MakeLogarithmic(values);
  }
}

void ChartAxis::MakeLinear(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, value);
  if (most <= kSmallestDrawn) most = 1;
  const double step = StepFor(most);
  const int steps = static_cast<int>(std::ceil(most / step - 1e-9));
  for (int i = 0; i <= steps; ++i) ticks_.push_back(i * step);
  high_ = steps * step;
}

void ChartAxis::MakeLogarithmic(const std::vector<double>& values) {
  double least = INFINITY;
  double most = 0;
  for (const double value : values) {
    if (value <= 0) continue;
    least = std::min(least, std::max(value, kSmallestDrawn));
    most = std::max(most, std::max(value, kSmallestDrawn));
  }
  if (most == 0) least = most = 1;
  low_ = std::floor(Logarithm(scale_, least) + 1e-9);
  high_ = std::max(std::ceil(Logarithm(scale_, most) - 1e-9), low_ + 1);
  const double step = std::max(1.0, std::ceil((high_ - low_) / kMostTicks));
  for (double e = low_; e <= high_; e += step) ticks_.push_back(Power(scale_, e));
}

double ChartAxis::Position(double value) const {
  if (scale_ != AxisScale::kLinear) {
    if (value <= 0) return 0;
    value = Logarithm(scale_, value);
  }
  return std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
}

std::string ChartAxis::TickText(double tick) const {
  switch (scale_) {
    case AxisScale::kPowersOfTwo:
      return TokensText(tick);
    case AxisScale::kPowersOfTen:
      return PowerOfTenText(static_cast<int>(std::lround(std::log10(tick))));
    case AxisScale::kLinear:
      break;
  }
  return tick >= 1000 && tick < 1e15 ? CountText(tick) : ValueText(tick);
}

}  // namespace kvant
