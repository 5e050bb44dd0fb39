#include "kvant/kernel/vector_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/kernel/isa_fixture.h"
#include "kvant/kernel/packed_weights_fixture.h"
#include "kvant/kernel/rope_table.h"

namespace kvant {
namespace {

TEST(VectorOps, RmsNormMatchesFloat64) {
  ForEachIsa([] {
    Random random(1);
    for (const size_t size : {1U, 7U, 64U, 576U, 1001U}) {
      const std::vector<float> x = RandomVector(size, 3, &random);
      const std::vector<float> weight = RandomVector(size, 1, &random);
      std::vector<float> out(size);
      RmsNorm(x.data(), weight.data(), size, 1e-5F, out.data());
      double squares = 0;
      for (const float value : x) squares += static_cast<double>(value) * value;
      const double norm = std::sqrt(squares / static_cast<double>(size) + 1e-5);
      for (size_t i = 0; i < size; ++i) {
        const double expected = x[i] / norm * weight[i];
        // Three roundings to float32: of 1 / norm and of two products.
        EXPECT_NEAR(out[i], expected, std::fabs(expected) * 3 * 0x1p-24 + 1e-30);
      }
      std::vector<float> in_place = x;
      RmsNorm(in_place.data(), weight.data(), size, 1e-5F, in_place.data());
      EXPECT_EQ(in_place, out);
    }
  });
}

TEST(VectorOps, RmsNormHasTheSameBitsOnEveryInstructionSet) {
  Random random(2);
  const std::vector<float> x = RandomVector(579, 3, &random);
  const std::vector<float> weight = RandomVector(579, 1, &random);
  std::vector<float> expected(579);
  ForceIsa(AvailableIsas().front());
  RmsNorm(x.data(), weight.data(), 579, 1e-6F, expected.data());
  ForEachIsa([&] {
    std::vector<float> out(579);
    RmsNorm(x.data(), weight.data(), 579, 1e-6F, out.data());
    EXPECT_EQ(out, expected);
  });
  ForceIsa(AvailableIsas().back());
}

TEST(VectorOps, RmsNormOfZerosIsZero) {
  std::vector<float> x(10);
  const std::vector<float> weight(10, 2.0F);
  RmsNorm(x.data(), weight.data(), 10, 1e-6F, x.data());
  EXPECT_EQ(x, std::vector<float>(10));
}

TEST(VectorOps, AddInPlaceAdds) {
  ForEachIsa([] {
    Random random(3);
    const std::vector<float> from = RandomVector(37, 1, &random);
    const std::vector<float> before = RandomVector(37, 1, &random);
    std::vector<float> to = before;
    AddInPlace(from.data(), 37, to.data());
    for (size_t i = 0; i < 37; ++i) EXPECT_EQ(to[i], before[i] + from[i]);
  });
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(VectorOps, ActivationsMatchFloat64) {
  ForEachIsa([] {
    Random random(4);
    for (const size_t size : {1U, 7U, 16U, 100U}) {
      const std::vector<float> in = RandomVector(size, 5, &random);
      const std::vector<float> up = RandomVector(size, 2, &random);
      std::vector<float> silu = in;
      std::vector<float> gelu = in;
      SiluTimes(silu.data(), up.data(), size);
      GeluTanhTimes(gelu.data(), up.data(), size);
      for (size_t i = 0; i < size; ++i) {
        const double expected_silu = Silu(in[i]) * up[i];
        const double expected_gelu = GeluTanh(in[i]) * up[i];
        EXPECT_NEAR(silu[i], expected_silu, std::fabs(expected_silu) * 2e-6 + 1e-7);
        EXPECT_NEAR(gelu[i], expected_gelu, std::fabs(expected_gelu) * 4e-6 + 1e-6);
      }
    }
  });
}

TEST(VectorOps, ActivationsOfExtremesSaturate) {
  ForEachIsa([] {
    const std::vector<float> in = {-1e30F, -200, 200, 0, 1e30F};
    const std::vector<float> ones(in.size(), 1.0F);
    for (const bool gelu : {false, true}) {
      std::vector<float> out = in;
      (gelu ? GeluTanhTimes : SiluTimes)(out.data(), ones.data(), out.size());
      EXPECT_NEAR(out[0], 0, 1e-6);
      EXPECT_NEAR(out[1], 0, 1e-6);
      EXPECT_EQ(out[2], 200);
      EXPECT_EQ(out[3], 0);
      EXPECT_EQ(out[4], 1e30F);
    }
  });
}

double ReferenceLogSum(const std::vector<float>& logits) {
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
  return static_cast<double>(std::log(sum));
}

TEST(VectorOps, SumOfExponentialsMatchesLongDouble) {
  ForEachIsa([] {
    Random random(5);
    for (const size_t size : {1U, 3U, 16U, 1001U, 49152U}) {
      const std::vector<float> logits = RandomVector(size, 8, &random);
      const float maximum = *std::max_element(logits.begin(), logits.end());
      const double log_sum = maximum + std::log(SumOfExponentials(logits.data(), size, maximum));
      EXPECT_NEAR(log_sum, ReferenceLogSum(logits), 1e-13);
    }
  });
}

TEST(VectorOps, FarBelowTheMaximumAddsNothing) {
  ForEachIsa([] {
    std::vector<float> logits(64, -1e30F);
    logits[40] = 5;
    EXPECT_EQ(SumOfExponentials(logits.data(), logits.size(), 5), 1);
  });
}

TEST(VectorOps, KlDivergenceMatchesLongDouble) {
  ForEachIsa([] {
    Random random(6);
    for (const size_t size : {1U, 5U, 1003U, 49152U}) {
      for (const double distance : {1.0, 1e-3, 0.0}) {
        const std::vector<float> p = RandomVector(size, 5, &random);
        std::vector<float> q = p;
        for (float& logit : q) logit += static_cast<float>(random.Normal() * distance);
        const double p_sum = ReferenceLogSum(p);
        const double q_sum = ReferenceLogSum(q);
        long double expected = 0;
        for (size_t i = 0; i < size; ++i) {
          const long double log_p = static_cast<long double>(p[i]) - p_sum;
          expected += std::exp(log_p) * (log_p - (static_cast<long double>(q[i]) - q_sum));
        }
        const double got = KlDivergence(p.data(), p_sum, q.data(), q_sum, size);
        EXPECT_NEAR(got, static_cast<double>(expected), 1e-13);
      }
    }
  });
}

TEST(RopeTable, RotatesByPositionTimesFrequency) {
  Random random(3);
  for (const bool interleaved : {false, true}) {
    const RopeTable table = MakeRopeTable(10000, {}, 64, interleaved, 5000);
    const std::vector<float> x = RandomVector(64, 1, &random);
    std::vector<float> rotated = x;
    ApplyRope(table, 4321, rotated);
    for (size_t i = 0; i < 32; ++i) {
      const size_t a = interleaved ? 2 * i : i;
      const size_t b = interleaved ? 2 * i + 1 : i + 32;
      const double angle = 4321 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64);
      EXPECT_NEAR(rotated[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-5);
      EXPECT_NEAR(rotated[b], x[b] * std::cos(angle) + x[a] * std::sin(angle), 1e-5);
    }
  }
}

TEST(RopeTable, FactorsDivideTheFrequencies) {
  const std::vector<float> factors(32, 4.0F);
  const RopeTable plain = MakeRopeTable(10000, {}, 64, false, 100);
  const RopeTable slow = MakeRopeTable(10000, factors, 64, false, 400);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(slow.CosineAt(80)[i], plain.CosineAt(20)[i], 1e-6);
  }
}

}  // namespace
}  // namespace kvant
