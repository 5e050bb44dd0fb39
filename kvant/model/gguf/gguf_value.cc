#include "kvant/model/gguf/gguf_value.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "kvant/model/gguf/gguf_limits.h"

namespace kvant {

namespace {

struct TypeFact {
  std::string_view name;
  uint64_t min_bytes;  // in the file
};

// Indexed by GgufType. A string has at least its length, an array its type and count.
constexpr std::array<TypeFact, 13> kTypes = {{{"uint8", 1},
                                              {"int8", 1},
                                              {"uint16", 2},
                                              {"int16", 2},
                                              {"uint32", 4},
                                              {"int32", 4},
                                              {"float32", 4},
                                              {"bool", 1},
                                              {"string", 8},
                                              {"array", 12},
                                              {"uint64", 8},
                                              {"int64", 8},
                                              {"float64", 8}}};

GgufType ReadType(GgufCursor* cursor, std::string_view what) {
  const uint32_t type = cursor->Read<uint32_t>(what);
  if (type >= kTypes.size()) {
    cursor->Refuse(
        fmt::format("{} {} is not one of GGUF's 0 to {}", what, type, kTypes.size() - 1));
  }
  return static_cast<GgufType>(type);
}

bool ReadBool(GgufCursor* cursor) {
  const uint8_t byte = cursor->Read<uint8_t>("boolean");
  if (byte > 1) cursor->Refuse(fmt::format("boolean has the value {}, not 0 or 1", byte));
  return byte == 1;
}

template <typename T>
std::vector<int64_t> ReadIntegers(GgufCursor* cursor, uint64_t count) {
  std::vector<int64_t> values(count);
  for (int64_t& value : values) {
    const T number = cursor->Read<T>("array element");
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        cursor->Refuse(fmt::format("array element {} exceeds 63 bits", number));
      }
    }
    value = static_cast<int64_t>(number);
  }
  return values;
}

template <typename T>
std::vector<float> ReadFloats(GgufCursor* cursor, uint64_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(cursor->Read<T>("array element"));
  return values;
}

std::vector<int64_t> ReadBools(GgufCursor* cursor, uint64_t count) {
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = ReadBool(cursor) ? 1 : 0;
  return values;
}

std::vector<std::string> ReadStrings(GgufCursor* cursor, uint64_t count) {
  std::vector<std::string> values(count);
  for (std::string& value : values) {
    value = cursor->ReadString(kMaxGgufStringBytes, "array element");
  }
  return values;
}

void ReadElements(GgufCursor* cursor, uint64_t count, GgufValue* value) {
  switch (value->element_type) {
    case GgufType::kUint8:
      value->data = ReadIntegers<uint8_t>(cursor, count);
      return;
    case GgufType::kInt8:
      value->data = ReadIntegers<int8_t>(cursor, count);
      return;
    case GgufType::kUint16:
      value->data = ReadIntegers<uint16_t>(cursor, count);
      return;
    case GgufType::kInt16:
      value->data = ReadIntegers<int16_t>(cursor, count);
      return;
    case GgufType::kUint32:
      value->data = ReadIntegers<uint32_t>(cursor, count);
      return;
    case GgufType::kInt32:
      value->data = ReadIntegers<int32_t>(cursor, count);
      return;
    case GgufType::kUint64:
      value->data = ReadIntegers<uint64_t>(cursor, count);
      return;
    case GgufType::kInt64:
      value->data = ReadIntegers<int64_t>(cursor, count);
      return;
    case GgufType::kFloat32:
      value->data = ReadFloats<float>(cursor, count);
      return;
    case GgufType::kFloat64:
      value->data = ReadFloats<double>(cursor, count);
      return;
    case GgufType::kBool:
      value->data = ReadBools(cursor, count);
      return;
    case GgufType::kString:
      value->data = ReadStrings(cursor, count);
      return;
    case GgufType::kArray:
      cursor->Refuse("an array within an array is not read");
  }
}

void ReadArray(GgufCursor* cursor, uint64_t* element_budget, GgufValue* value) {
  value->element_type = ReadType(cursor, "element type");
  const uint64_t count = cursor->Read<uint64_t>("array length");
  const TypeFact& element = kTypes[static_cast<size_t>(value->element_type)];
  cursor->RequireItems(count, element.min_bytes, "array");
  if (count > *element_budget) {
    cursor->Refuse(fmt::format("array of {} elements; all arrays together may have {}", count,
                               kMaxGgufArrayElements));
  }
  *element_budget -= count;
  ReadElements(cursor, count, value);
}

}  // namespace

std::string TypeText(const GgufValue& value) {
  const std::string_view name = kTypes[static_cast<size_t>(value.type)].name;
  if (value.type != GgufType::kArray) return std::string(name);
  return fmt::format("array of {}", kTypes[static_cast<size_t>(value.element_type)].name);
}

GgufValue ReadGgufValue(GgufCursor* cursor, uint64_t* element_budget) {
  GgufValue value;
  value.type = ReadType(cursor, "value type");
  const auto read_unsigned = [&](auto number) { value.data = static_cast<uint64_t>(number); };
  const auto read_signed = [&](auto number) { value.data = static_cast<int64_t>(number); };
  switch (value.type) {
    case GgufType::kUint8:
      read_unsigned(cursor->Read<uint8_t>("value"));
      break;
    case GgufType::kUint16:
      read_unsigned(cursor->Read<uint16_t>("value"));
      break;
    case GgufType::kUint32:
      read_unsigned(cursor->Read<uint32_t>("value"));
      break;
    case GgufType::kUint64:
      read_unsigned(cursor->Read<uint64_t>("value"));
      break;
    case GgufType::kInt8:
      read_signed(cursor->Read<int8_t>("value"));
      break;
    case GgufType::kInt16:
      read_signed(cursor->Read<int16_t>("value"));
      break;
    case GgufType::kInt32:
      read_signed(cursor->Read<int32_t>("value"));
      break;
    case GgufType::kInt64:
      read_signed(cursor->Read<int64_t>("value"));
      break;
    case GgufType::kFloat32:
      value.data = static_cast<double>(cursor->Read<float>("value"));
      break;
    case GgufType::kFloat64:
      value.data = cursor->Read<double>("value");
      break;
    case GgufType::kBool:
      value.data = ReadBool(cursor);
      break;
    case GgufType::kString:
      value.data = cursor->ReadString(kMaxGgufStringBytes, "string");
      break;
    case GgufType::kArray:
      ReadArray(cursor, element_budget, &value);
      break;
  }
  return value;
}

}  // namespace kvant
