// Random packed matrices for tests and benchmarks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/packed_matrix.h"

namespace kvant {

inline constexpr WeightType kAllWeightTypes[] = {
    WeightType::kF32,  WeightType::kF16,  WeightType::kBF16, WeightType::kQ8_0,
    WeightType::kQ4_0, WeightType::kQ4_1, WeightType::kQ5_0, WeightType::kQ5_1,
    WeightType::kQ4_K, WeightType::kQ5_K, WeightType::kQ6_K};

inline std::vector<uint8_t> RandomBytes(size_t size, Random* random) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Below(256));
  return bytes;
}

inline void PutHalf(float value, uint8_t* at) {
  const uint16_t half = Fp16FromFloat(value);
  std::memcpy(at, &half, sizeof(half));
}

// Makes a block of random bytes hold ordinary numbers: its floats and scales are rewritten, since
// random ones may be NaN; its codes stay.
inline void GiveOrdinaryScales(WeightType type, Random* random, uint8_t* block) {
  const auto scale = [&] { return static_cast<float>(random->Normal() * 0.02); };
  switch (type) {
    case WeightType::kF32: {
      const float value = scale();
      std::memcpy(block, &value, sizeof(value));
      return;
    }
    case WeightType::kBF16: {
      const uint16_t value = Bf16FromFloat(scale());
      std::memcpy(block, &value, sizeof(value));
      return;
    }
    case WeightType::kQ6_K:
      return PutHalf(scale(), block + 208);
    case WeightType::kF16:
    case WeightType::kQ8_0:
    case WeightType::kQ4_0:
    case WeightType::kQ5_0:
      return PutHalf(scale(), block);
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K:
      PutHalf(scale(), block);
      PutHalf(scale(), block + 2);
  }
}

// Owns the bytes of its matrix.
struct RandomMatrix {
  RandomMatrix(WeightType type, uint64_t rows, uint64_t columns, Random* random)
      : bytes(RandomBytes(rows * columns / WeightBlockElements(type) * WeightBlockBytes(type),
                          random)),
        matrix{type, rows, columns, bytes.data()} {
    for (size_t at = 0; at < bytes.size(); at += WeightBlockBytes(type)) {
      GiveOrdinaryScales(type, random, bytes.data() + at);
    }
  }

  std::vector<uint8_t> bytes;
  PackedMatrix matrix;
};

inline std::vector<float> RandomVector(size_t size, double scale, Random* random) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random->Normal() * scale);
  return values;
}

}  // namespace kvant
