#include "kvant/kernel/vector_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/kernel/rope_table.h"

namespace kvant {
namespace {

std::vector<float> RandomVector(size_t size, double scale, Random* random) {
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random->Normal() * scale);
  return x;
}

TEST(VectorOps, RmsNormMatchesFloat64) {
  Random random(1);
  for (const size_t size : {1U, 64U, 576U, 1001U}) {
    const std::vector<float> x = RandomVector(size, 3, &random);
    const std::vector<float> weight = RandomVector(size, 1, &random);
    std::vector<float> out(size);
    RmsNorm(x.data(), weight.data(), size, 1e-5F, out.data());
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    const double norm = std::sqrt(squares / static_cast<double>(size) + 1e-5);
    for (size_t i = 0; i < size; ++i) {
      const double expected = x[i] / norm * weight[i];
      EXPECT_NEAR(out[i], expected, std::fabs(expected) * 1e-6 + 1e-9);
    }
  }
}

TEST(VectorOps, ActivationsMatchFloat64) {
  Random random(2);
  for (const size_t size : {1U, 7U, 16U, 100U}) {
    std::vector<float> silu = RandomVector(size, 5, &random);
    const std::vector<float> up = RandomVector(size, 2, &random);
    std::vector<float> gelu = silu;
    const std::vector<float> in = silu;
    SiluTimes(silu.data(), up.data(), size);
    GeluTanhTimes(gelu.data(), up.data(), size);
    for (size_t i = 0; i < size; ++i) {
      const double x = in[i];
      const double expected_silu = x / (1 + std::exp(-x)) * up[i];
      const double z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      const double expected_gelu = 0.5 * x * (1 + std::tanh(z)) * up[i];
      EXPECT_NEAR(silu[i], expected_silu, std::fabs(expected_silu) * 2e-6 + 1e-7);
      EXPECT_NEAR(gelu[i], expected_gelu, std::fabs(expected_gelu) * 4e-6 + 1e-6);
    }
  }
  std::vector<float> extreme = {-200, 200, 0};
  const std::vector<float> ones = {1, 1, 1};
  SiluTimes(extreme.data(), ones.data(), 3);
  EXPECT_NEAR(extreme[0], 0, 1e-6);
  EXPECT_EQ(extreme[1], 200);
  EXPECT_EQ(extreme[2], 0);
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
