#include "kvant/kernel/gemv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kvant/kernel/dequantize_reference.h"
#include "kvant/kernel/isa_fixture.h"
#include "kvant/kernel/packed_weights_fixture.h"

namespace kvant {
namespace {

// Wide enough for every test: rows of a narrow matrix follow those of a wide one.
GemvWorkspace& Workspace() {
  static GemvWorkspace workspace(1536);
  return workspace;
}

// What rounding the activations of packed types may change: half a step of 1/32,767 of the largest
// magnitude in each group of 32, times the weights' magnitudes.
double ActivationError(std::span<const float> weights, const float* x) {
  double error = 0;
  for (size_t group = 0; group < weights.size(); group += 32) {
    double largest = 0;
    double magnitude = 0;
    for (size_t i = group; i < std::min(group + 32, weights.size()); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
      magnitude += std::fabs(static_cast<double>(weights[i]));
    }
    error += magnitude * largest / 65534;
  }
  return error;
}

// A float32 dot product in any order errs by at most columns · 2^-24 of the sum of magnitudes
// (Higham 2002, section 3.1); independent roundings stay well below its square root times 4. A
// bias that is subtracted from the sum, not from the codes, at most triples the magnitudes.
void ExpectDot(WeightType type, std::span<const float> weights, const float* x, float got) {
  double exact = 0;
  double magnitude = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double product = static_cast<double>(weights[i]) * x[i];
    exact += product;
    magnitude += std::fabs(product);
  }
  const double roundings = 4 * std::sqrt(static_cast<double>(weights.size()));
  const bool packed = WeightBlockElements(type) > 1;
  const double error = magnitude * roundings * 0x1p-24 + 1e-30;
  EXPECT_NEAR(got, exact, packed ? 3 * error + ActivationError(weights, x) : error)
      << WeightTypeName(type);
}

void ExpectProduct(const PackedMatrix& w, std::span<const float> x, size_t batch,
                   ThreadPool& pool) {
  std::vector<float> out(batch * w.rows, std::numeric_limits<float>::quiet_NaN());
  MultiplyRows(w, x, batch, out.data(), pool, Workspace());
  std::vector<float> row(w.columns);
  for (uint64_t r = 0; r < w.rows; ++r) {
    DequantizeReference(w.type, w.data + r * w.row_bytes(), w.columns, row.data());
    for (size_t b = 0; b < batch; ++b) {
      ExpectDot(w.type, row, x.data() + b * w.columns, out[b * w.rows + r]);
    }
  }
}

TEST(Gemv, EveryTypeMatchesFloat64) {
  ForEachIsa([] {
    Random random(1);
    ThreadPool pool(2);
    for (const WeightType type : kAllWeightTypes) {
      for (const uint64_t columns : {256U, 512U, 768U, 32U, 608U}) {
        if (columns % WeightBlockElements(type) != 0) continue;
        const RandomMatrix w(type, 70, columns, &random);
        const std::vector<float> x = RandomVector(5 * columns, 1, &random);
        for (const size_t batch : {1U, 5U}) {
          ExpectProduct(w.matrix, std::span(x).first(batch * columns), batch, pool);
        }
      }
    }
  });
}

// One activation a thousand times the others, groups of zeros, of denormals, and at the limits.
TEST(Gemv, ActivationsOfAnyMagnitude) {
  ForEachIsa([] {
    Random random(6);
    ThreadPool pool(1);
    std::vector<float> x = RandomVector(512, 1, &random);
    for (size_t i = 0; i < 512; i += 67) x[i] *= 1000;
    std::fill_n(&x[32], 32, 0.0F);
    std::fill_n(&x[64], 32, 1e-41F);
    std::fill_n(&x[96], 32, -0.0F);
    for (size_t i = 128; i < 160; ++i) x[i] *= 1e-20F;
    for (size_t i = 160; i < 192; ++i) x[i] *= 1e20F;
    for (const WeightType type : kAllWeightTypes) {
      const RandomMatrix w(type, 40, 512, &random);
      ExpectProduct(w.matrix, x, 1, pool);
      std::fill_n(&x[160], 32, 0.0F);  // which hid all the others
      ExpectProduct(w.matrix, x, 1, pool);
    }
  });
}

TEST(Gemv, UnpackedTypesTakeAnyNumberOfColumns) {
  ForEachIsa([] {
    Random random(2);
    ThreadPool pool(1);
    for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      for (const uint64_t columns : {1U, 31U, 33U, 64U, 255U, 257U, 300U}) {
        const RandomMatrix w(type, 3, columns, &random);
        const std::vector<float> x = RandomVector(3 * columns, 1, &random);
        for (const size_t batch : {1U, 3U}) {
          ExpectProduct(w.matrix, std::span(x).first(batch * columns), batch, pool);
        }
      }
    }
  });
}

TEST(Gemv, BatchPlaceAndThreadsChangeNoBit) {
  ForEachIsa([] {
    Random random(3);
    ThreadPool one(1);
    ThreadPool two(2);
    for (const WeightType type : kAllWeightTypes) {
      // The columns of SmolLM2, and a count that no tile divides.
      const uint64_t columns = WeightBlockElements(type) == 256  ? 1536
                               : WeightBlockElements(type) == 32 ? 608
                                                                 : 301;
      const RandomMatrix w(type, 200, columns, &random);
      const std::vector<float> x = RandomVector(64 * columns, 1, &random);
      for (const size_t batch : {2U, 8U, 9U, 64U}) {
        std::vector<float> together(batch * 200);
        MultiplyRows(w.matrix, std::span(x).first(batch * columns), batch, together.data(), two,
                     Workspace());
        for (size_t b = 0; b < batch; ++b) {
          std::vector<float> alone(200);
          MultiplyRows(w.matrix, std::span(x).subspan(b * columns, columns), 1, alone.data(), one,
                       Workspace());
          ASSERT_EQ(std::memcmp(alone.data(), &together[b * 200], 200 * sizeof(float)), 0)
              << WeightTypeName(type) << ", row " << b << " of " << batch;
        }
      }
    }
  });
}

TEST(Gemv, ARowsBitsDoNotDependOnTheOtherRows) {
  ForEachIsa([] {
    Random random(4);
    ThreadPool pool(2);
    const RandomMatrix w(WeightType::kQ4_1, 100, 576, &random);
    const std::vector<float> x = RandomVector(576, 1, &random);
    std::vector<float> whole(100);
    MultiplyRows(w.matrix, x, 1, whole.data(), pool, Workspace());
    for (const uint64_t first : {1U, 31U, 64U, 99U}) {
      PackedMatrix part = w.matrix;
      part.data += first * part.row_bytes();
      part.rows -= first;
      std::vector<float> out(part.rows);
      MultiplyRows(part, x, 1, out.data(), pool, Workspace());
      EXPECT_EQ(std::memcmp(out.data(), &whole[first], out.size() * sizeof(float)), 0);
    }
  });
}

TEST(Gemv, ANonFiniteActivationReachesItsOwnOutputsOnly) {
  ForEachIsa([] {
    Random random(5);
    ThreadPool pool(1);
    for (const WeightType type : kAllWeightTypes) {
      const RandomMatrix w(type, 10, 256, &random);
      for (const float value :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> x = RandomVector(2 * 256, 1, &random);
        x[3] = value;
        std::vector<float> out(20);
        MultiplyRows(w.matrix, x, 2, out.data(), pool, Workspace());
        for (size_t r = 0; r < 10; ++r) {
          EXPECT_FALSE(std::isfinite(out[r])) << WeightTypeName(type);
          EXPECT_TRUE(std::isfinite(out[10 + r])) << WeightTypeName(type);
        }
        // Nothing of it is left for the next product.
        ExpectProduct(w.matrix, std::span(x).last(256), 1, pool);
      }
    }
  });
}

}  // namespace
}  // namespace kvant
