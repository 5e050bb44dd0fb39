// Packed weights to float32, slowly and obviously: what DequantizeRow is tested against.
#pragma once

#include <cstdint>

#include "kvant/kernel/weight_type.h"

namespace kvant {

// As DequantizeRow, one weight at a time, in the order of the formats' definition.
// REQUIRES: elements a multiple of the type's block.
void DequantizeReference(WeightType type, const uint8_t* row, uint64_t elements, float* out);

}  // namespace kvant
