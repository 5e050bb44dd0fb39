#include "kvant/kernel/weight_type.h"

#include <array>

#include "kvant/core/error.h"

namespace kvant {

namespace {

struct TypeInfo {
  WeightType type;
  std::string_view name;
  uint32_t ggml_type;
  uint64_t elements;
  uint64_t bytes;
};

constexpr std::array<TypeInfo, 11> kTypes = {{{WeightType::kF32, "F32", 0, 1, 4},
                                              {WeightType::kF16, "F16", 1, 1, 2},
                                              {WeightType::kBF16, "BF16", 30, 1, 2},
                                              {WeightType::kQ8_0, "Q8_0", 8, 32, 34},
                                              {WeightType::kQ4_0, "Q4_0", 2, 32, 18},
                                              {WeightType::kQ4_1, "Q4_1", 3, 32, 20},
                                              {WeightType::kQ5_0, "Q5_0", 6, 32, 22},
                                              {WeightType::kQ5_1, "Q5_1", 7, 32, 24},
                                              {WeightType::kQ4_K, "Q4_K", 12, 256, 144},
                                              {WeightType::kQ5_K, "Q5_K", 13, 256, 176},
                                              {WeightType::kQ6_K, "Q6_K", 14, 256, 210}}};

const TypeInfo& InfoOf(WeightType type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return info;
  }
  KVANT_CHECK(false);
}

}  // namespace

std::string_view WeightTypeName(WeightType type) { return InfoOf(type).name; }

std::optional<WeightType> WeightTypeFromGgml(uint32_t ggml_type) {
  for (const TypeInfo& info : kTypes) {
    if (info.ggml_type == ggml_type) return info.type;
  }
  return std::nullopt;
}

uint64_t WeightBlockElements(WeightType type) { return InfoOf(type).elements; }
uint64_t WeightBlockBytes(WeightType type) { return InfoOf(type).bytes; }

std::string SupportedWeightTypes() {
  std::string names;
  for (const TypeInfo& info : kTypes) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

}  // namespace kvant
