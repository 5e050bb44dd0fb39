#include "kvant/format/hadamard.h"

#include <array>
#include <cmath>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {

namespace {

constexpr uint32_t kMaxSize = 512;

bool IsPowerOfTwo(uint32_t n) { return n > 0 && (n & (n - 1)) == 0; }

// size = paley * sylvester, paley in {1, 12, 20, 28}, sylvester a power of two; 0 if it is not.
uint32_t PaleyPart(uint32_t size) {
  if (IsPowerOfTwo(size)) return 1;
  for (const uint32_t paley : {12U, 20U, 28U}) {
    if (size % paley == 0 && IsPowerOfTwo(size / paley)) return paley;
  }
  return 0;
}

// 1 for a non-zero square modulo the prime q, -1 for a non-square, 0 for 0.
int QuadraticCharacter(int x, int q) {
  x = ((x % q) + q) % q;
  if (x == 0) return 0;
  for (int i = 1; i < q; ++i) {
    if (i * i % q == x) return 1;
  }
  return -1;
}

// Paley's first construction for a prime q = 3 mod 4: order q + 1.
std::vector<float> PaleyOne(int q) {
  const int n = q + 1;
  std::vector<float> h(static_cast<size_t>(n) * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      int value = 0;
      if (i == 0 && j == 0) {
        value = 1;
      } else if (i == 0) {
        value = 1;
      } else if (j == 0) {
        value = -1;
      } else {
        value = QuadraticCharacter(i - j, q) + (i == j ? 1 : 0);
      }
      h[static_cast<size_t>(i) * n + j] = static_cast<float>(value);
    }
  }
  return h;
}

// Paley's second construction for a prime q = 1 mod 4: order 2(q + 1).
std::vector<float> PaleyTwo(int q) {
  const int n = q + 1;
  const int order = 2 * n;
  std::vector<float> h(static_cast<size_t>(order) * order);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      const int c = i == j ? 0 : (i == 0 || j == 0) ? 1 : QuadraticCharacter(i - j, q);
      // C tensor [[1,1],[1,-1]] + I tensor [[1,-1],[-1,-1]]
      const int identity = i == j ? 1 : 0;
      const std::array<int, 4> block = {c + identity, c - identity, c - identity, -c - identity};
      for (int a = 0; a < 2; ++a) {
        for (int b = 0; b < 2; ++b) {
          h[static_cast<size_t>(2 * i + a) * order + 2 * j + b] =
              static_cast<float>(block[static_cast<size_t>(2 * a + b)]);
        }
      }
    }
  }
  return h;
}

const std::vector<float>& PaleyMatrix(uint32_t order) {
  static const std::vector<float> k12 = PaleyOne(11);
  static const std::vector<float> k20 = PaleyOne(19);
  static const std::vector<float> k28 = PaleyTwo(13);
  return order == 12 ? k12 : order == 20 ? k20 : k28;
}

const std::array<float, kMaxSize>& Signs() {
  static const std::array<float, kMaxSize> signs = [] {
    std::array<float, kMaxSize> s{};
    for (uint32_t i = 0; i < kMaxSize; ++i) {
      s[i] = (RandomAt(kHadamardSeed, i) & 1U) != 0 ? -1.0F : 1.0F;
    }
    return s;
  }();
  return signs;
}

// Sylvester butterflies over the outer index of x seen as [outer][inner].
void Butterflies(std::span<float> x, size_t inner) {
  for (size_t half = inner; half < x.size(); half *= 2) {
    for (size_t start = 0; start < x.size(); start += 2 * half) {
      for (size_t i = start; i < start + half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

// Paley's matrix (or its transpose) on each run of `order` values.
void PaleyProducts(std::span<float> x, uint32_t order, bool transposed) {
  const std::vector<float>& h = PaleyMatrix(order);
  std::array<float, 28> in{};
  for (size_t start = 0; start < x.size(); start += order) {
    for (uint32_t i = 0; i < order; ++i) in[i] = x[start + i];
    for (uint32_t i = 0; i < order; ++i) {
      float sum = 0;
      for (uint32_t j = 0; j < order; ++j) {
        sum += in[j] * (transposed ? h[size_t{j} * order + i] : h[size_t{i} * order + j]);
      }
      x[start + i] = sum;
    }
  }
}

void Transform(std::span<float> x, bool transposed) {
  const uint32_t paley = PaleyPart(static_cast<uint32_t>(x.size()));
  KVANT_CHECK(paley != 0 && x.size() <= kMaxSize);
  if (paley > 1) PaleyProducts(x, paley, transposed);
  Butterflies(x, paley);  // symmetric: its own transpose
  const float norm = 1.0F / std::sqrt(static_cast<float>(x.size()));
  for (float& value : x) value *= norm;
}

}  // namespace

bool HasHadamard(uint32_t size) { return size <= kMaxSize && PaleyPart(size) != 0; }

void ApplyHadamard(std::span<float> x) {
  const auto& signs = Signs();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
  Transform(x, false);
}

void InvertHadamard(std::span<float> x) {
  Transform(x, true);
  const auto& signs = Signs();
  for (size_t i = 0; i < x.size(); ++i) x[i] *= signs[i];
}

std::string HadamardIdentity() {
  return "sylvester*paley(12,20,28) signs=splitmix64(" + std::to_string(kHadamardSeed) + ")";
}

}  // namespace kvant
