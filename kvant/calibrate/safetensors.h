// The safetensors file format: an 8-byte little-endian header length, a JSON header, raw tensors.
// Source: huggingface/safetensors, format description.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvant {

struct SafetensorsTensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;  // F32, or BF16 and F16 widened
};

struct SafetensorsFile {
  std::map<std::string, SafetensorsTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Parses a whole file in memory. Throws Error{kInvalidInput} naming `source` unless the header is
// at most 100,000,000 bytes of JSON without duplicate keys, every tensor's size is its shape times
// its type's, and the tensors fill the rest of the file from 0 without holes or overlap. Only
// floating-point tensors are read.
SafetensorsFile ParseSafetensors(std::string_view bytes, const std::string& source);

// All tensors as F32.
std::string SerializeSafetensors(const SafetensorsFile& file);

}  // namespace kvant
