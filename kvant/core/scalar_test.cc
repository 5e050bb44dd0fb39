#include "kvant/core/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kvant/core/random.h"

namespace kvant {
namespace {

// The representable value nearest to x, ties to the even code, by trying every code.
template <typename Decode>
double Nearest(double x, int codes, Decode decode) {
  double best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < codes; ++code) {
    const double value = decode(code);
    if (!std::isfinite(value)) continue;
    const double distance = std::fabs(value - x);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = value;
      best_distance = distance;
    }
  }
  return best;
}

TEST(Scalar, Fp8RoundsToTheNearestCode) {
  Random random(7);
  for (int i = 0; i < 4000; ++i) {
    const double scale = std::exp2(random.Uniform() * 24 - 14);
    const auto x = static_cast<float>(random.Normal() * scale);
    EXPECT_EQ(FloatFromFp8E4m3(Fp8E4m3FromFloat(x)),
              Nearest(x, 256, [](int c) { return FloatFromFp8E4m3(static_cast<uint8_t>(c)); }))
        << x;
    EXPECT_EQ(FloatFromFp8E5m2(Fp8E5m2FromFloat(x)),
              Nearest(x, 256, [](int c) { return FloatFromFp8E5m2(static_cast<uint8_t>(c)); }))
        << x;
  }
}

TEST(Scalar, EveryCodeSurvivesARoundTrip) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float half = FloatFromFp16(bits);
    const float brain = FloatFromBf16(bits);
    if (!std::isnan(half)) {
      EXPECT_EQ(Fp16FromFloat(half), bits);
    }
    if (!std::isnan(brain)) {
      EXPECT_EQ(Bf16FromFloat(brain), bits);
    }
  }
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    if (!std::isnan(FloatFromFp8E4m3(bits))) {
      EXPECT_EQ(Fp8E4m3FromFloat(FloatFromFp8E4m3(bits)), bits);
    }
    if (std::isfinite(FloatFromFp8E5m2(bits))) {
      EXPECT_EQ(Fp8E5m2FromFloat(FloatFromFp8E5m2(bits)), bits);
    }
  }
}

TEST(Scalar, KnownValues) {
  EXPECT_EQ(FloatFromFp8E4m3(0x7E), 448.0F);
  EXPECT_EQ(FloatFromFp8E4m3(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(FloatFromFp8E5m2(0x7B), 57344.0F);
  EXPECT_EQ(Fp8E4m3FromFloat(1e9F), 0x7E);
  EXPECT_EQ(Fp8E4m3FromFloat(-INFINITY), 0xFE);
  EXPECT_TRUE(std::isnan(FloatFromFp8E4m3(Fp8E4m3FromFloat(NAN))));
  EXPECT_TRUE(std::isnan(FloatFromFp16(Fp16FromFloat(NAN))));
  EXPECT_EQ(Fp16FromFloat(65519.0F), 0x7BFF);
  EXPECT_EQ(Fp16FromFloat(65520.0F), 0x7C00);
  EXPECT_EQ(Bf16FromFloat(211.4F), Bf16FromFloat(211.0F));
}

}  // namespace
}  // namespace kvant
