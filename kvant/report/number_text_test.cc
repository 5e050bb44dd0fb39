#include "kvant/report/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kvant {
namespace {

TEST(NumberText, AbsentIsADash) {
  for (const std::string& text :
       {ValueText({}), CountText({}), PercentText({}), PointsText({}), TimesText({}), BytesText({}),
        TokensText({}), MillisecondsText({})}) {
    EXPECT_EQ(text, "—");
  }
  EXPECT_EQ(IntervalText(1, {}, 0), "");
}

TEST(NumberText, Values) {
  EXPECT_EQ(ValueText(0), "0");
  EXPECT_EQ(ValueText(0.01234), "0.0123");
  EXPECT_EQ(ValueText(999.7), "1,000");
  EXPECT_EQ(ValueText(27413.4), "27,413");
  EXPECT_EQ(ValueText(INFINITY), "∞");
  EXPECT_EQ(ValueText(2.22e-5), "2.2×10⁻⁵");
  EXPECT_EQ(ValueText(-4.5e12), "−4.5×10¹²");
  EXPECT_EQ(PowerOfTenText(-2), "0.01");
  EXPECT_EQ(PowerOfTenText(-12), "10⁻¹²");
}

TEST(NumberText, Counts) {
  EXPECT_EQ(CountText(7), "7");
  EXPECT_EQ(CountText(123456), "123,456");
  EXPECT_EQ(CountText(-1234567), "−1,234,567");
  EXPECT_EQ(CountText(1e300), "1.0×10³⁰⁰");
}

TEST(NumberText, Shares) {
  EXPECT_EQ(PercentText(0.942), "94.2\u00a0%");
  EXPECT_EQ(PercentText(0.99851), "99.85\u00a0%");
  EXPECT_EQ(PercentText(1), "100\u00a0%");
  EXPECT_EQ(PointsText(-0.4), "−40.0");
  EXPECT_EQ(PointsText(0.025), "+2.5");
  EXPECT_EQ(PointsText(-0.0001), "0.0");
}

TEST(NumberText, Units) {
  EXPECT_EQ(BytesText(23040), "23,040 B");
  EXPECT_EQ(BytesText(4294967296), "4.00 GiB");
  EXPECT_EQ(TokensText(2048), "2K");
  EXPECT_EQ(TokensText(2000), "2,000");
  EXPECT_EQ(TokensText(131072), "128K");
  EXPECT_EQ(MillisecondsText(12.34), "12.3 ms");
  EXPECT_EQ(MillisecondsText(45600), "45.6 s");
  EXPECT_EQ(TimesText(0.53125), "0.53 ×");
}

TEST(NumberText, IntervalsEndWhereTheQuantityDoes) {
  EXPECT_EQ(IntervalText(-0.5, 0.25, 0), "[0,\u00a00.25]");
  EXPECT_EQ(PercentIntervalText(0.9731, 1.02), "[97.3,\u00a0100.0]");
}

TEST(NumberText, RatioOfNothingIsNothing) {
  EXPECT_EQ(Ratio(1, 0), std::nullopt);
  EXPECT_EQ(Ratio({}, 2), std::nullopt);
  EXPECT_EQ(Ratio(1e308, 1e-308), std::nullopt);
  EXPECT_EQ(Ratio(1, 2), 0.5);
}

}  // namespace
}  // namespace kvant
