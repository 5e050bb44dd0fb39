#include "kvant/format/hadamard.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {

namespace {

constexpr size_t kMaxSize = 512;
constexpr std::array<uint32_t, 3> kPaleyOrders = {12, 20, 28};
constexpr size_t kLargestPaley = 28;

bool IsPowerOfTwo(uint32_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The order of Paley's matrix in a transform of this size: 1 for a power of two, 0 if there is no
// transform.
uint32_t PaleyOrder(uint32_t size) {
  if (IsPowerOfTwo(size)) return 1;
  for (const uint32_t order : kPaleyOrders) {
    if (size % order == 0 && IsPowerOfTwo(size / order)) return order;
  }
  return 0;
}

// A square matrix of ±1, by columns: entry (i, j) at [j * order + i], so that a product sums
// columns and vectorises over rows.
struct SignMatrix {
  explicit SignMatrix(size_t size) : order(size), by_columns(size * size) {}
  void Set(size_t row, size_t column, int value) {
    by_columns[column * order + row] = static_cast<float>(value);
  }
  SignMatrix Transposed() const {
    SignMatrix transposed(order);
    for (size_t i = 0; i < order; ++i) {
      for (size_t j = 0; j < order; ++j) {
        transposed.by_columns[i * order + j] = by_columns[j * order + i];
      }
    }
    return transposed;
  }

  size_t order;
  std::vector<float> by_columns;
};

// 1 if x is a non-zero square modulo the prime q, -1 if it is no square, 0 if q divides it.
int QuadraticCharacter(int x, int q) {
  const int residue = (x % q + q) % q;
  if (residue == 0) return 0;
  for (int i = 1; i < q; ++i) {
    if (i * i % q == residue) return 1;
  }
  return -1;
}

// The bordered matrix of Paley's constructions: 0 on the diagonal, ±1 elsewhere; symmetric for q =
// 1 mod 4, skew for q = 3 mod 4 (`border` = -1).
int Conference(int i, int j, int q, int border) {
  if (i == j) return 0;
  if (i == 0) return 1;
  if (j == 0) return border;
  return QuadraticCharacter(i - j, q);
}

// Paley's first construction, order q + 1 for a prime q = 3 mod 4: I + S with S skew.
SignMatrix PaleyFirst(int q) {
  const int order = q + 1;
  SignMatrix matrix(static_cast<size_t>(order));
  for (int i = 0; i < order; ++i) {
    for (int j = 0; j < order; ++j) {
      matrix.Set(static_cast<size_t>(i), static_cast<size_t>(j),
                 Conference(i, j, q, -1) + (i == j ? 1 : 0));
    }
  }
  return matrix;
}

// Paley's second construction, order 2(q + 1) for a prime q = 1 mod 4: in C, symmetric, 0 becomes
// [1 -1; -1 -1] and ±1 becomes ±[1 1; 1 -1].
SignMatrix PaleySecond(int q) {
  const int half = q + 1;
  SignMatrix matrix(static_cast<size_t>(2 * half));
  for (int i = 0; i < half; ++i) {
    for (int j = 0; j < half; ++j) {
      const int c = Conference(i, j, q, 1);
      const auto row = static_cast<size_t>(2 * i);
      const auto column = static_cast<size_t>(2 * j);
      matrix.Set(row, column, c == 0 ? 1 : c);
      matrix.Set(row, column + 1, c == 0 ? -1 : c);
      matrix.Set(row + 1, column, c == 0 ? -1 : c);
      matrix.Set(row + 1, column + 1, c == 0 ? -1 : -c);
    }
  }
  return matrix;
}

struct PaleyPair {
  explicit PaleyPair(SignMatrix m) : matrix(std::move(m)), transposed(matrix.Transposed()) {}
  SignMatrix matrix;
  SignMatrix transposed;
};

const PaleyPair& Paley(uint32_t order) {
  static const PaleyPair order12(PaleyFirst(11));
  static const PaleyPair order20(PaleyFirst(19));
  static const PaleyPair order28(PaleySecond(13));
  return order == 12 ? order12 : order == 20 ? order20 : order28;
}

const std::array<float, kMaxSize>& Signs() {
  static const std::array<float, kMaxSize> signs = [] {
    std::array<float, kMaxSize> made{};
    for (size_t i = 0; i < kMaxSize; ++i) {
      made[i] = (RandomAt(kHadamardSeed, i) & 1U) != 0 ? -1.0F : 1.0F;
    }
    return made;
  }();
  return signs;
}

void MultiplyBySigns(std::span<float> x) {
  const std::array<float, kMaxSize>& signs = Signs();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
}

// Replaces each run of `order` values by its product with the matrix.
void MultiplyRuns(const SignMatrix& matrix, std::span<float> x) {
  const size_t order = matrix.order;
  for (size_t start = 0; start < x.size(); start += order) {
    std::array<float, kLargestPaley> product{};
    for (size_t j = 0; j < order; ++j) {
      const float value = x[start + j];
      const float* column = matrix.by_columns.data() + j * order;
      for (size_t i = 0; i < order; ++i) product[i] += column[i] * value;
    }
    for (size_t i = 0; i < order; ++i) x[start + i] = product[i];
  }
}

// Sylvester's matrix over runs of `run` values (its own transpose), by butterflies.
void MultiplyBySylvester(std::span<float> x, size_t run) {
  for (size_t half = run; half < x.size(); half *= 2) {
    for (size_t start = 0; start < x.size(); start += 2 * half) {
      float* upper = x.data() + start;
      float* lower = upper + half;
      for (size_t i = 0; i < half; ++i) {
        const float sum = upper[i] + lower[i];
        lower[i] = upper[i] - lower[i];
        upper[i] = sum;
      }
    }
  }
}

// The Kronecker product of Sylvester's and Paley's matrix, orthonormal; or its transpose.
void Transform(std::span<float> x, bool transposed) {
  const uint32_t order = PaleyOrder(static_cast<uint32_t>(x.size()));
  KVANT_CHECK(x.size() <= kMaxSize && order != 0);
  if (order > 1) {
    const PaleyPair& paley = Paley(order);
    MultiplyRuns(transposed ? paley.transposed : paley.matrix, x);
  }
  MultiplyBySylvester(x, order);
  const float norm = 1.0F / std::sqrt(static_cast<float>(x.size()));
  for (float& value : x) value *= norm;
}

}  // namespace

bool HasHadamard(uint32_t size) { return size <= kMaxSize && PaleyOrder(size) != 0; }

void ApplyHadamard(std::span<float> x) {
  KVANT_CHECK(x.size() <= kMaxSize);
  MultiplyBySigns(x);
  Transform(x, false);
}

void InvertHadamard(std::span<float> x) {
  Transform(x, true);
  MultiplyBySigns(x);
}

std::string HadamardIdentity() {
  return fmt::format(
      "sylvester x paley(1,12,20,28); signs: bit 0 of "
      "splitmix64({:#x}, channel)",
      kHadamardSeed);
}

}  // namespace kvant
