#include "kvant/report/chart_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kvant/core/random.h"

namespace kvant {
namespace {

using testing::ElementsAre;

TEST(ChartAxis, LinearStartsAtZeroAndTicksAreRound) {
  const ChartAxis axis(AxisScale::kLinear, {12, 48});
  EXPECT_THAT(axis.ticks(), ElementsAre(0, 10, 20, 30, 40, 50));
  EXPECT_DOUBLE_EQ(axis.Position(25), 0.5);
  EXPECT_EQ(axis.Position(-5), 0);
  EXPECT_EQ(axis.Position(500), 1);
}

TEST(ChartAxis, LogarithmicCoversWholePowers) {
  const ChartAxis tens(AxisScale::kPowersOfTen, {3e-5, 0.02, 0});
  EXPECT_NEAR(tens.ticks().front(), 1e-5, 1e-12);
  EXPECT_NEAR(tens.ticks().back(), 0.1, 1e-9);
  EXPECT_EQ(tens.Position(0), 0) << "zero is drawn on the lower edge";
  EXPECT_NEAR(tens.Position(1e-3), 0.5, 1e-9);
  const ChartAxis twos(AxisScale::kPowersOfTwo, {90, 6000});
  EXPECT_EQ(twos.TickText(twos.ticks().front()), "64");
  EXPECT_EQ(twos.TickText(twos.ticks().back()), "8K");
}

TEST(ChartAxis, NothingToCoverIsStillAnAxis) {
  for (const AxisScale scale :
       {AxisScale::kLinear, AxisScale::kPowersOfTwo, AxisScale::kPowersOfTen}) {
    for (const std::vector<double>& values :
         std::vector<std::vector<double>>{{}, {0}, {-3}, {1}, {1e-300}, {1e15}}) {
      const ChartAxis axis(scale, values);
      EXPECT_GE(axis.ticks().size(), 2U);
      EXPECT_LE(axis.ticks().size(), 9U);
      EXPECT_FALSE(axis.TickText(axis.ticks().back()).empty());
    }
  }
}

TEST(ChartAxis, PositionsKeepTheOrderOfValues) {
  Random random(11);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 8; ++i) {
      values.push_back(std::pow(10.0, static_cast<double>(random.Below(27)) - 13.0));
    }
    std::sort(values.begin(), values.end());
    for (const AxisScale scale :
         {AxisScale::kLinear, AxisScale::kPowersOfTwo, AxisScale::kPowersOfTen}) {
      const ChartAxis axis(scale, values);
      double last = 0;
      for (const double value : values) {
        const double position = axis.Position(value);
        EXPECT_GE(position, last);
        EXPECT_LE(position, 1);
        last = position;
      }
    }
  }
}

}  // namespace
}  // namespace kvant
