#include "kvant/report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvant {

namespace {

constexpr const char* kAbsent = "—";

std::string WithSign(double value, const std::string& magnitude) {
  return value < 0 ? "−" + magnitude : magnitude;
}

std::string Superscript(int exponent) {
  static const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = exponent < 0 ? "⁻" : "";
  for (const char c : std::to_string(std::abs(exponent))) out += digits[c - '0'];
  return out;
}

std::string WithCommas(double magnitude) {
  std::string digits = fmt::format("{:.0f}", magnitude);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

// "2.2×10⁻⁵"
std::string Scientific(double magnitude) {
  const std::string text = fmt::format("{:.1e}", magnitude);
  const size_t e = text.find('e');
  return text.substr(0, e) + "×10" + Superscript(std::stoi(text.substr(e + 1)));
}

}  // namespace

std::string ValueText(std::optional<double> value) {
  if (!value) return kAbsent;
  const double magnitude = std::fabs(*value);
  if (magnitude == 0) return "0";
  if (std::isinf(magnitude)) return WithSign(*value, "∞");
  if (magnitude < 1e-3 || magnitude >= 1e6) return WithSign(*value, Scientific(magnitude));
  const bool whole = magnitude >= 999.5;
  return WithSign(*value, whole ? WithCommas(magnitude) : fmt::format("{:.3g}", magnitude));
}

std::string PowerOfTenText(int exponent) {
  if (exponent >= -3 && exponent < 4) return ValueText(std::pow(10.0, exponent));
  return "10" + Superscript(exponent);
}

std::string CountText(std::optional<double> value) {
  if (!value) return kAbsent;
  if (std::fabs(*value) >= 1e15) return ValueText(value);
  return WithSign(*value, WithCommas(std::fabs(*value)));
}

std::string PercentText(std::optional<double> share) {
  if (!share) return kAbsent;
  const double percent = 100 * *share;
  if (std::fabs(percent) >= 1e6) return ValueText(percent) + " %";
  const bool whole = std::fabs(percent - std::round(percent)) < 1e-9;
  const int decimals = whole ? 0 : percent > 99 && percent < 100 ? 2 : 1;
  return WithSign(percent, fmt::format("{:.{}f} %", std::fabs(percent), decimals));
}

std::string PointsText(std::optional<double> difference) {
  if (!difference) return kAbsent;
  const double points = 100 * *difference;
  if (std::fabs(points) >= 1e6) return ValueText(points);
  if (std::fabs(points) < 0.05) return "0.0";
  return fmt::format("{}{:.1f}", points < 0 ? "−" : "+", std::fabs(points));
}

std::string TimesText(std::optional<double> ratio) {
  if (!ratio) return kAbsent;
  return std::fabs(*ratio) < 1e4 ? fmt::format("{:.2f} ×", *ratio) : ValueText(ratio) + " ×";
}

std::string BytesText(std::optional<double> bytes) {
  if (!bytes) return kAbsent;
  if (std::fabs(*bytes) < 1 << 20) return CountText(bytes) + " B";
  if (std::fabs(*bytes) < 1 << 30) return fmt::format("{:.1f} MiB", *bytes / (1 << 20));
  if (std::fabs(*bytes) < 1e16) return fmt::format("{:.2f} GiB", *bytes / (1 << 30));
  return ValueText(bytes) + " B";
}

std::string TokensText(std::optional<double> tokens) {
  if (!tokens) return kAbsent;
  const bool whole_kilo = *tokens >= 1024 && std::fmod(*tokens, 1024) == 0;
  return whole_kilo ? CountText(*tokens / 1024) + "K" : CountText(tokens);
}

std::string MillisecondsText(std::optional<double> milliseconds) {
  if (!milliseconds) return kAbsent;
  const double value = *milliseconds;
  if (std::fabs(value) >= 1e4) return ValueText(value / 1000) + " s";
  return ValueText(value) + " ms";
}

std::string IntervalText(std::optional<double> low, std::optional<double> high, double least) {
  if (!low || !high) return "";
  return fmt::format("[{}, {}]", ValueText(std::max(*low, least)),
                     ValueText(std::max(*high, least)));
}

std::string PercentIntervalText(std::optional<double> low, std::optional<double> high) {
  if (!low || !high) return "";
  return fmt::format("[{:.1f}, {:.1f}]", 100 * std::clamp(*low, 0.0, 1.0),
                     100 * std::clamp(*high, 0.0, 1.0));
}

std::optional<double> Ratio(std::optional<double> a, std::optional<double> b) {
  if (!a || !b || *b == 0) return std::nullopt;
  const double ratio = *a / *b;
  return std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

}  // namespace kvant
