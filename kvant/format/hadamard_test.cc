#include "kvant/format/hadamard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kvant/core/random.h"

namespace kvant {
namespace {

constexpr uint32_t kSizes[] = {32, 64, 80, 96, 112, 128, 192, 256, 512};

TEST(Hadamard, RowsAreOrthonormalAndOfEqualMagnitude) {
  for (const uint32_t size : kSizes) {
    ASSERT_TRUE(HasHadamard(size)) << size;
    std::vector<std::vector<float>> columns;
    for (uint32_t j = 0; j < size; ++j) {
      std::vector<float> unit(size, 0.0F);
      unit[j] = 1.0F;
      ApplyHadamard(unit);
      for (const float x : unit) EXPECT_NEAR(std::fabs(x), 1.0 / std::sqrt(size), 1e-6) << size;
      columns.push_back(unit);
    }
    for (uint32_t a = 0; a < size; ++a) {
      for (uint32_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (uint32_t i = 0; i < size; ++i) {
          dot += static_cast<double>(columns[a][i]) * columns[b][i];
        }
        EXPECT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-6) << size << ": " << a << ", " << b;
      }
    }
  }
}

TEST(Hadamard, InverseUndoesItAndDotProductsStay) {
  Random random(1);
  for (const uint32_t size : kSizes) {
    std::vector<float> q(size);
    std::vector<float> k(size);
    double dot = 0;
    for (uint32_t i = 0; i < size; ++i) {
      q[i] = static_cast<float>(random.Normal());
      k[i] = static_cast<float>(random.Normal());
      dot += static_cast<double>(q[i]) * k[i];
    }
    const std::vector<float> original = q;
    ApplyHadamard(q);
    ApplyHadamard(k);
    double rotated = 0;
    for (uint32_t i = 0; i < size; ++i) rotated += static_cast<double>(q[i]) * k[i];
    EXPECT_NEAR(rotated, dot, 1e-4) << size;
    InvertHadamard(q);
    for (uint32_t i = 0; i < size; ++i) EXPECT_NEAR(q[i], original[i], 1e-5) << size;
  }
}

TEST(Hadamard, OtherSizesAreRefused) {
  for (const uint32_t size : {0U, 3U, 48U + 1U, 72U, 100U, 1024U}) {
    EXPECT_FALSE(HasHadamard(size)) << size;
  }
}

}  // namespace
}  // namespace kvant
