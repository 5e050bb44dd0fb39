// The packed types in which GGUF keeps weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvant {

// Layout of each block: kvant/kernel/dequantize.cc. Source: the GGUF specification and ggml's
// type descriptions.
enum class WeightType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

std::string_view WeightTypeName(WeightType type);
// nullopt for a ggml type number that Kvant does not read.
std::optional<WeightType> WeightTypeFromGgml(uint32_t ggml_type);
uint64_t WeightBlockElements(WeightType type);
uint64_t WeightBlockBytes(WeightType type);
// "F32, F16, …", for messages.
std::string SupportedWeightTypes();

}  // namespace kvant
