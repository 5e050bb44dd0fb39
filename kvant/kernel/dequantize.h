// Packed weights to float32.
#pragma once

#include <cstdint>

#include "kvant/kernel/weight_type.h"

namespace kvant {

// Decodes `elements` weights of one row, from a block's start. The same bits on every instruction
// set, and as DequantizeReference (a NaN's sign and payload excepted).
// REQUIRES: elements a multiple of the type's block.
void DequantizeRow(WeightType type, const uint8_t* row, uint64_t elements, float* out);

}  // namespace kvant
