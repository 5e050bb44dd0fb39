// Normal values from a seed, the K, V and queries of the kernel benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvant/core/random.h"

namespace kvant {

inline std::vector<float> RandomVector(uint64_t seed, size_t size) {
  Random random(seed);
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(random.Normal());
  return values;
}

}  // namespace kvant
