// Builds small GGUF files in memory, valid ones and, for tests of the reader, broken ones. Tests
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/kernel/weight_type.h"
#include "kvant/model/gguf/gguf_value.h"

namespace kvant {

// Appends little-endian numbers and GGUF strings. A string holds the bytes: GCC 12 warns falsely
// about appending to a vector.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufBytes& Type(GgufType type) { return Number(static_cast<uint32_t>(type)); }
  GgufBytes& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  GgufBytes& Raw(const std::vector<uint8_t>& bytes) {
    return Raw(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  GgufBytes& String(std::string_view text) { return Number(uint64_t{text.size()}).Raw(text); }
  GgufBytes& PadTo(uint64_t multiple) {
    bytes_.resize(RoundUp(bytes_.size(), multiple));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct GgufBuilderTensor {
  std::string name;
  uint32_t ggml_type = 0;
  std::vector<uint64_t> shape;     // fastest first
  std::vector<uint8_t> data;       // written at `offset`
  std::optional<uint64_t> offset;  // what the description claims; as laid out if not set
};

// Every member may be set to something that breaks the format.
struct GgufBuilder {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> num_tensors;
  std::optional<uint64_t> num_keys;
  uint64_t alignment = 32;  // of the layout; the key general.alignment is the caller's
  std::vector<std::pair<std::string, std::string>> metadata;  // key, type and value
  std::vector<GgufBuilderTensor> tensors;

  GgufBuilder& Raw(std::string key, const GgufBytes& type_and_value) {
    metadata.emplace_back(std::move(key), type_and_value.bytes());
    return *this;
  }
  GgufBuilder& Uint32(std::string key, uint32_t value) {
    return Raw(std::move(key), GgufBytes().Type(GgufType::kUint32).Number(value));
  }
  GgufBuilder& Float32(std::string key, float value) {
    return Raw(std::move(key), GgufBytes().Type(GgufType::kFloat32).Number(value));
  }
  GgufBuilder& Bool(std::string key, bool value) {
    return Raw(std::move(key), GgufBytes().Type(GgufType::kBool).Number(uint8_t{value}));
  }
  GgufBuilder& String(std::string key, std::string_view value) {
    return Raw(std::move(key), GgufBytes().Type(GgufType::kString).String(value));
  }
  GgufBuilder& Strings(std::string key, const std::vector<std::string>& values) {
    GgufBytes bytes = ArrayOf(GgufType::kString, values.size());
    for (const std::string& value : values) bytes.String(value);
    return Raw(std::move(key), bytes);
  }
  GgufBuilder& Int32s(std::string key, const std::vector<int32_t>& values) {
    GgufBytes bytes = ArrayOf(GgufType::kInt32, values.size());
    for (const int32_t value : values) bytes.Number(value);
    return Raw(std::move(key), bytes);
  }
  GgufBuilder& Float32s(std::string key, const std::vector<float>& values) {
    GgufBytes bytes = ArrayOf(GgufType::kFloat32, values.size());
    for (const float value : values) bytes.Number(value);
    return Raw(std::move(key), bytes);
  }

  // `data`: packed as `type` says, in ggml's order (shape[0] varies fastest).
  GgufBuilder& Tensor(std::string name, WeightType type, std::vector<uint64_t> shape,
                      std::vector<uint8_t> data) {
    tensors.push_back({std::move(name), GgmlNumber(type), std::move(shape), std::move(data), {}});
    return *this;
  }
  GgufBuilder& FloatTensor(std::string name, std::vector<uint64_t> shape,
                           std::span<const float> values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    return Tensor(std::move(name), WeightType::kF32, std::move(shape),
                  std::vector<uint8_t>(bytes, bytes + values.size_bytes()));
  }

  std::vector<uint8_t> Build() const {
    GgufBytes file;
    file.Raw(magic).Number(version);
    file.Number(num_tensors.value_or(tensors.size())).Number(num_keys.value_or(metadata.size()));
    for (const auto& entry : metadata) file.String(entry.first).Raw(entry.second);
    GgufBytes data;
    for (const GgufBuilderTensor& tensor : tensors) {
      Describe(tensor, data.bytes().size(), &file);
      data.Raw(tensor.data).PadTo(alignment);
    }
    file.PadTo(alignment).Raw(data.bytes());
    return std::vector<uint8_t>(file.bytes().begin(), file.bytes().end());
  }

 private:
  static GgufBytes ArrayOf(GgufType element, uint64_t count) {
    return GgufBytes().Type(GgufType::kArray).Type(element).Number(count);
  }
  static uint32_t GgmlNumber(WeightType type) {
    uint32_t number = 0;
    while (WeightTypeFromGgml(number) != type) KVANT_CHECK(++number < 256);
    return number;
  }
  static void Describe(const GgufBuilderTensor& tensor, uint64_t laid_out_at, GgufBytes* file) {
    file->String(tensor.name).Number(static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t extent : tensor.shape) file->Number(extent);
    file->Number(tensor.ggml_type).Number(tensor.offset.value_or(laid_out_at));
  }
};

}  // namespace kvant
