// Numbers as the page prints them. An absent number prints as "—". Where a space must not break a
// line it is U+00A0.
#pragma once

#include <optional>
#include <string>

namespace kvant {

// "0.0123", "27,413", "2.2×10⁻⁵": two significant digits or more.
std::string ValueText(std::optional<double> value);
// "0.01", "10⁻⁵"
std::string PowerOfTenText(int exponent);
// "12,345"; without decimals.
std::string CountText(std::optional<double> value);
// "94.2 %", "99.85 %", "100 %" of a share in 0…1.
std::string PercentText(std::optional<double> share);
// "+2.5", "−40.0", "0.0": percentage points of a difference of shares.
std::string PointsText(std::optional<double> difference);
// "0.61 ×"
std::string TimesText(std::optional<double> ratio);
// "23,040 B", "4.0 GiB"
std::string BytesText(std::optional<double> bytes);
// "512", "2K"
std::string TokensText(std::optional<double> tokens);
// "12.3 ms"
std::string MillisecondsText(std::optional<double> milliseconds);
// "[0.001, 0.002]", or "" if an end is absent. An end below `least`, which the quantity cannot
// reach, prints as `least`.
std::string IntervalText(std::optional<double> low, std::optional<double> high, double least);
// The same for shares, as percentages within 0…100: "[97.3, 100.0]".
std::string PercentIntervalText(std::optional<double> low, std::optional<double> high);
// a ÷ b, absent if b is zero or either is absent.
std::optional<double> Ratio(std::optional<double> a, std::optional<double> b);

}  // namespace kvant
