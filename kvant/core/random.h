// Seeded random numbers: the same seed gives the same numbers on every machine and standard
// library.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace kvant {

// A well-mixed 64-bit hash of (seed, position): random draws that do not depend on the order in
// which they are made. Source: SplitMix64 finaliser (Steele, Lea, Flood 2014).
uint64_t RandomAt(uint64_t seed, uint64_t position);

// xoshiro256** 1.0 (Blackman, Vigna 2018).
class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t Next();
  // Uniform in [0, 1), 53 bits.
  double Uniform();
  // Uniform in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound);
  // Standard normal.
  double Normal();

  template <typename T>
  void Shuffle(std::span<T> values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(i)]);
  }

 private:
  uint64_t state_[4];
};

}  // namespace kvant
