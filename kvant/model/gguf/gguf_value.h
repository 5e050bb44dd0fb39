// One metadata value of a GGUF: a number, a string, or an array of these.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "kvant/model/gguf/gguf_cursor.h"

namespace kvant {

// The numbers are the file format's.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Integers are widened to 64 bits. Arrays of integers and booleans hold int64_t, arrays of
// floating-point numbers hold float (the only width that checkpoints use).
struct GgufValue {
  GgufType type = GgufType::kUint32;          // as in the file
  GgufType element_type = GgufType::kUint32;  // of an array
  std::variant<bool, uint64_t, int64_t, double, std::string, std::vector<int64_t>,
               std::vector<float>, std::vector<std::string>>
      data;
};

// "uint32", "array of string".
std::string TypeText(const GgufValue& value);

// Reads type and content. Array elements are taken from `element_budget`, which all arrays of a
// file share. Throws Error{kInvalidInput}: unknown type, boolean that is neither 0 nor 1, array in
// an array, more elements than the budget or the file holds.
GgufValue ReadGgufValue(GgufCursor* cursor, uint64_t* element_budget);

}  // namespace kvant
