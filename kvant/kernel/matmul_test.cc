#include "kvant/kernel/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kvant/kernel/dequantize_reference.h"
#include "kvant/kernel/isa_fixture.h"
#include "kvant/kernel/packed_weights_fixture.h"

namespace kvant {
namespace {

// One chain of `columns` multiply-adds errs by at most about columns · 2^-24 of the sum of
// magnitudes (Higham 2002, section 3.1); independent roundings stay well below 4 · sqrt(columns).
void ExpectDot(std::span<const float> weights, const float* x, float got) {
  double exact = 0;
  double magnitude = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double product = static_cast<double>(weights[i]) * x[i];
    exact += product;
    magnitude += std::fabs(product);
  }
  const double roundings = 4 * std::sqrt(static_cast<double>(weights.size()));
  EXPECT_NEAR(got, exact, magnitude * roundings * 0x1p-24 + 1e-30);
}

void ExpectProduct(const PackedMatrix& w, const std::vector<float>& x, size_t tokens,
                   ThreadPool& pool) {
  MatmulWorkspace workspace(pool.num_threads());
  // One number beyond the end must stay.
  std::vector<float> out(tokens * w.rows + 1, 7.0F);
  Multiply(w, x.data(), tokens, out.data(), pool, workspace);
  EXPECT_EQ(out.back(), 7.0F);
  std::vector<float> row(w.columns);
  for (uint64_t r = 0; r < w.rows; ++r) {
    DequantizeReference(w.type, w.data + r * w.row_bytes(), w.columns, row.data());
    for (size_t t = 0; t < tokens; ++t) ExpectDot(row, &x[t * w.columns], out[t * w.rows + r]);
  }
}

TEST(Matmul, EveryTypeMatchesFloat64) {
  ForEachIsa([] {
    Random random(1);
    ThreadPool pool(2);
    for (const WeightType type : kAllWeightTypes) {
      const RandomMatrix w(type, 100, 512, &random);
      ExpectProduct(w.matrix, RandomVector(13 * 512, 1, &random), 13, pool);
    }
  });
}

TEST(Matmul, EveryNumberOfRowsAndTokensMatchesFloat64) {
  ForEachIsa([] {
    Random random(2);
    ThreadPool pool(2);
    for (const uint64_t rows : {1U, 2U, 7U, 23U, 25U, 47U, 48U, 49U, 95U, 97U}) {
      for (const size_t tokens : {1U, 3U, 8U, 257U}) {
        const RandomMatrix w(WeightType::kQ4_1, rows, 64, &random);
        ExpectProduct(w.matrix, RandomVector(tokens * 64, 1, &random), tokens, pool);
      }
    }
  });
}

TEST(Matmul, UnpackedTypesTakeAnyNumberOfColumns) {
  ForEachIsa([] {
    Random random(3);
    ThreadPool pool(1);
    for (const uint64_t columns : {1U, 3U, 31U, 33U, 255U, 257U, 300U}) {
      const RandomMatrix w(WeightType::kBF16, 50, columns, &random);
      ExpectProduct(w.matrix, RandomVector(9 * columns, 1, &random), 9, pool);
    }
  });
}

TEST(Matmul, ATokensBitsDoNotDependOnItsCompany) {
  ForEachIsa([] {
    Random random(4);
    ThreadPool one(1);
    ThreadPool two(2);
    MatmulWorkspace workspace(2);
    const size_t tokens = 520;
    for (const uint64_t columns : {576U, 1536U}) {
      // Fewer rows where one lane does all: the work there is ninety times slower.
      const uint64_t rows = ActiveIsa() == Isa::kPortable ? 5 : 130;
      const RandomMatrix w(WeightType::kQ8_0, rows, columns, &random);
      const std::vector<float> x = RandomVector(tokens * columns, 1, &random);
      std::vector<float> whole(tokens * rows);
      Multiply(w.matrix, x.data(), tokens, whole.data(), two, workspace);
      for (const size_t count : {1U, 7U, 64U, 65U, 200U, 512U}) {
        for (const size_t first : {0U, 1U, 5U, 8U}) {
          std::vector<float> part(count * rows);
          Multiply(w.matrix, &x[first * columns], count, part.data(), one, workspace);
          ASSERT_EQ(std::memcmp(part.data(), &whole[first * rows], part.size() * sizeof(float)), 0)
              << columns << " columns, " << count << " tokens from " << first;
        }
      }
    }
  });
}

TEST(Matmul, ARowsBitsDoNotDependOnTheOtherRows) {
  ForEachIsa([] {
    Random random(5);
    ThreadPool pool(2);
    MatmulWorkspace workspace(2);
    const RandomMatrix w(WeightType::kQ4_K, 100, 256, &random);
    const std::vector<float> x = RandomVector(9 * 256, 1, &random);
    std::vector<float> whole(9 * 100);
    Multiply(w.matrix, x.data(), 9, whole.data(), pool, workspace);
    for (const uint64_t first : {1U, 24U, 47U, 99U}) {
      PackedMatrix part = w.matrix;
      part.data += first * part.row_bytes();
      part.rows -= first;
      std::vector<float> out(9 * part.rows);
      Multiply(part, x.data(), 9, out.data(), pool, workspace);
      for (size_t t = 0; t < 9; ++t) {
        EXPECT_EQ(
            std::memcmp(&out[t * part.rows], &whole[t * 100 + first], part.rows * sizeof(float)),
            0);
      }
    }
  });
}

TEST(Matmul, ANaNReachesItsOwnTokenOnly) {
  Random random(6);
  ThreadPool pool(1);
  MatmulWorkspace workspace(1);
  const RandomMatrix w(WeightType::kQ5_0, 50, 64, &random);
  std::vector<float> x = RandomVector(9 * 64, 1, &random);
  x[2 * 64 + 5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> out(9 * 50);
  Multiply(w.matrix, x.data(), 9, out.data(), pool, workspace);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 50 == 2);
}

TEST(Matmul, NoTokensIsNoWork) {
  Random random(7);
  ThreadPool pool(1);
  MatmulWorkspace workspace(1);
  const RandomMatrix w(WeightType::kQ5_0, 50, 64, &random);
  Multiply(w.matrix, nullptr, 0, nullptr, pool, workspace);
}

TEST(Matmul, TheWorkspaceIsWhatItsFormulaSays) {
  EXPECT_EQ(MatmulWorkspaceBytes(3), 3U * (48 + 4) * 256 * 4);
}

}  // namespace
}  // namespace kvant
