// One axis of a chart: where a value lies, and which values get a tick.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kvant {

enum class AxisScale { kLinear, kPowersOfTwo, kPowersOfTen };

class ChartAxis {
 public:
  // Covers all finite `values`; those that are not above zero do not widen a logarithmic axis. A
  // linear axis starts at zero.
  ChartAxis(AxisScale scale, const std::vector<double>& values);

  // 0 at the low end … 1 at the high end; clamped.
  double Position(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  std::string TickText(double tick) const;

 private:
  void MakeLinear(const std::vector<double>& values);
  void MakeLogarithmic(const std::vector<double>& values);

  AxisScale scale_;
  double low_ = 0;  // of the value, or of its logarithm
  double high_ = 1;
  std::vector<double> ticks_;
};

}  // namespace kvant
