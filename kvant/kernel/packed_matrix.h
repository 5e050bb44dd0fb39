// A weight matrix in its packed type.
#pragma once

#include <cstdint>

#include "kvant/kernel/weight_type.h"

namespace kvant {

// y = W·x with W [rows outputs, columns inputs], row-major. Does not own its bytes.
struct PackedMatrix {
  WeightType type = WeightType::kF32;
  uint64_t rows = 0;
  uint64_t columns = 0;  // a multiple of the type's block
  const uint8_t* data = nullptr;

  uint64_t row_bytes() const {
    return columns / WeightBlockElements(type) * WeightBlockBytes(type);
  }
};

}  // namespace kvant
