// The tensors that a GGUF describes: name, type, shape and where their bytes lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/kernel/weight_type.h"
#include "kvant/model/gguf/gguf_cursor.h"

namespace kvant {

struct GgufTensor {
  std::string name;
  WeightType type = WeightType::kF32;
  std::vector<uint64_t> shape;  // 1 to 4 extents, fastest first, each at least 1
  uint64_t offset = 0;          // of its first byte in the file
  uint64_t bytes = 0;           // packed

  // The product of `shape`; parsing proved that it fits.
  uint64_t num_elements() const;
};

// Reads `count` descriptions; the offsets are still relative to the data section. Throws Error,
// which names the tensor: kInvalidInput (name, shape, size), kUnsupported (weight type).
std::vector<GgufTensor> ReadGgufTensors(GgufCursor* cursor, uint64_t count);

// Makes the offsets absolute, for a data section that starts at `data_start`. Throws
// Error{kInvalidInput} naming `source` and the tensor: not aligned, not inside `file_bytes`, or
// two that overlap.
void PlaceGgufTensors(uint64_t data_start, uint64_t alignment, uint64_t file_bytes,
                      const std::string& source, std::vector<GgufTensor>* tensors);

}  // namespace kvant
