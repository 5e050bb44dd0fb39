#include "kvant/format/hadamard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/sha256.h"

namespace kvant {
namespace {

constexpr uint32_t kSizes[] = {32, 64, 80, 96, 112, 128, 192, 256, 512};

// Columns of the transform's matrix: H · signs · e_j.
std::vector<std::vector<float>> Columns(uint32_t size) {
  std::vector<std::vector<float>> columns;
  for (uint32_t j = 0; j < size; ++j) {
    std::vector<float> unit(size, 0.0F);
    unit[j] = 1.0F;
    ApplyHadamard(unit);
    columns.push_back(unit);
  }
  return columns;
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  for (size_t i = 0; i < a.size(); ++i) dot += static_cast<double>(a[i]) * b[i];
  return dot;
}

std::vector<float> Gaussian(Random* random, uint32_t size) {
  std::vector<float> x(size);
  for (float& value : x) value = static_cast<float>(random->Normal());
  return x;
}

TEST(Hadamard, ColumnsAreOrthonormalAndOfEqualMagnitude) {
  for (const uint32_t size : kSizes) {
    ASSERT_TRUE(HasHadamard(size)) << size;
    const std::vector<std::vector<float>> columns = Columns(size);
    for (uint32_t a = 0; a < size; ++a) {
      for (const float x : columns[a]) ASSERT_NEAR(std::fabs(x), 1 / std::sqrt(size), 1e-6) << size;
      for (uint32_t b = 0; b <= a; ++b) {
        ASSERT_NEAR(Dot(columns[a], columns[b]), a == b ? 1.0 : 0.0, 1e-6)
            << size << ": " << a << ", " << b;
      }
    }
  }
}

TEST(Hadamard, IsTheProductOfItsColumns) {
  Random random(1);
  for (const uint32_t size : kSizes) {
    const std::vector<std::vector<float>> columns = Columns(size);
    const std::vector<float> x = Gaussian(&random, size);
    std::vector<float> fast = x;
    ApplyHadamard(fast);
    for (uint32_t i = 0; i < size; ++i) {
      double slow = 0;
      for (uint32_t j = 0; j < size; ++j) slow += static_cast<double>(columns[j][i]) * x[j];
      ASSERT_NEAR(fast[i], slow, 1e-5) << size;
    }
  }
}

TEST(Hadamard, KeepsNormsAndDotProducts) {
  Random random(2);
  for (const uint32_t size : kSizes) {
    std::vector<float> q = Gaussian(&random, size);
    std::vector<float> k = Gaussian(&random, size);
    const double dot = Dot(q, k);
    const double norm = Dot(q, q);
    ApplyHadamard(q);
    ApplyHadamard(k);
    EXPECT_NEAR(Dot(q, k), dot, 1e-5 * size) << size;
    EXPECT_NEAR(Dot(q, q), norm, 1e-6 * norm) << size;
  }
}

TEST(Hadamard, TheInverseUndoesIt) {
  Random random(3);
  for (const uint32_t size : kSizes) {
    const std::vector<float> original = Gaussian(&random, size);
    std::vector<float> x = original;
    ApplyHadamard(x);
    InvertHadamard(x);
    for (uint32_t i = 0; i < size; ++i) ASSERT_NEAR(x[i], original[i], 1e-5) << size;
    InvertHadamard(x);
    ApplyHadamard(x);
    for (uint32_t i = 0; i < size; ++i) ASSERT_NEAR(x[i], original[i], 2e-5) << size;
  }
}

// Without signs, a constant vector would become a spike.
TEST(Hadamard, SpreadsConstantVectors) {
  for (const uint32_t size : kSizes) {
    std::vector<float> x(size, 1.0F);
    ApplyHadamard(x);
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::fabs(value));
    EXPECT_LT(largest, 0.5F * std::sqrt(static_cast<float>(size)) + 1.5F) << size;
  }
}

TEST(Hadamard, SizesAreTheProductsOfAPowerOfTwo) {
  const std::set<uint32_t> expected = {1,   2,   4,   8,   12,  16,  20,  24,  28,
                                       32,  40,  48,  56,  64,  80,  96,  112, 128,
                                       160, 192, 224, 256, 320, 384, 448, 512};
  std::set<uint32_t> sizes;
  for (uint32_t size = 0; size <= 2048; ++size) {
    if (HasHadamard(size)) sizes.insert(size);
  }
  EXPECT_EQ(sizes, expected);
}

// Stored blocks outlive a build: the matrix may never change under the same identity.
TEST(Hadamard, TheMatricesAreTheOnesThatTheIdentityNames) {
  Sha256 digest;
  for (const uint32_t size : kSizes) {
    std::string signs;
    for (const std::vector<float>& column : Columns(size)) {
      for (const float x : column) signs += x > 0 ? '+' : '-';
    }
    digest.Field(signs);
  }
  EXPECT_EQ(HadamardIdentity(),
            "sylvester x paley(1,12,20,28); signs: bit 0 of splitmix64(0x9e3779b9, channel)");
  EXPECT_EQ(Hex(digest.Finish()),
            "ba162ea09be37f3cf1a15ed0f2fdc15357567fb4f9484acb8086d1cdea847807");
}

}  // namespace
}  // namespace kvant
