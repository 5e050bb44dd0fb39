#include "kvant/calibrate/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/core/scalar.h"

namespace kvant {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDimensions = 8;

Error Invalid(const std::string& source, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", source, what),
               "the file is damaged or not a safetensors file");
}

uint64_t ReadLength(std::string_view bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
  }
  return length;
}

struct Entry {
  std::string name;
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t Unsigned(const Json& value, const std::string& source, const std::string& name) {
  if (!value.is_number_unsigned()) {
    throw Invalid(source, fmt::format("tensor {} has a size that is not a whole number", name));
  }
  return value.get<uint64_t>();
}

uint64_t BytesOfType(const std::string& type, const std::string& source, const std::string& name) {
  if (type == "F32") return 4;
  if (type == "F16" || type == "BF16") return 2;
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: tensor {} has type {}", source, name, type),
              "scales are read as F32, F16 or BF16");
}

Entry ParseEntry(const std::string& name, const Json& value, const std::string& source) {
  const bool whole = value.is_object() && value.contains("dtype") && value["dtype"].is_string() &&
                     value.contains("shape") && value["shape"].is_array() &&
                     value.contains("data_offsets") && value["data_offsets"].is_array() &&
                     value["data_offsets"].size() == 2;
  if (!whole) throw Invalid(source, fmt::format("tensor {} lacks dtype, shape or offsets", name));
  Entry entry;
  entry.name = name;
  entry.type = value["dtype"].get<std::string>();
  if (value["shape"].size() > kMaxDimensions) {
    throw Invalid(source,
                  fmt::format("tensor {} has more than {} dimensions", name, kMaxDimensions));
  }
  uint64_t elements = 1;
  for (const Json& size : value["shape"]) {
    entry.shape.push_back(Unsigned(size, source, name));
    elements = CheckedMul(elements, entry.shape.back(), source + ": tensor " + name);
  }
  entry.begin = Unsigned(value["data_offsets"][0], source, name);
  entry.end = Unsigned(value["data_offsets"][1], source, name);
  const uint64_t bytes = CheckedMul(elements, BytesOfType(entry.type, source, name), source);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    throw Invalid(source, fmt::format("tensor {} of {} bytes lies at [{}, {})", name, bytes,
                                      entry.begin, entry.end));
  }
  return entry;
}

std::vector<float> Widen(std::string_view bytes, const std::string& type) {
  const size_t size = type == "F32" ? 4 : 2;
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    if (size == 4) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      continue;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = type == "F16" ? FloatFromFp16(bits) : FloatFromBf16(bits);
  }
  return values;
}

}  // namespace

SafetensorsFile ParseSafetensors(std::string_view bytes, const std::string& source) {
  if (bytes.size() < 8) throw Invalid(source, "shorter than the 8-byte header length");
  const uint64_t header_bytes = ReadLength(bytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - 8) {
    throw Invalid(source,
                  fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes.size()));
  }
  const std::string_view header_text = bytes.substr(8, header_bytes);
  if (header_text.empty() || header_text.front() != '{') {
    throw Invalid(source, "the header does not start with '{'");
  }
  const Json header = ParseJson(header_text, source);
  const std::string_view data = bytes.substr(8 + header_bytes);
  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(ParseEntry(name, value, source));
      continue;
    }
    if (!value.is_object()) throw Invalid(source, "__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) throw Invalid(source, "__metadata__ holds more than strings");
      file.metadata[key] = text.get<std::string>();
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      throw Invalid(source, fmt::format("tensor {} starts at {} instead of {}", entry.name,
                                        entry.begin, expected));
    }
    expected = entry.end;
    if (expected > data.size()) {
      throw Invalid(source, fmt::format("tensor {} ends beyond the file", entry.name));
    }
    file.tensors[entry.name] = {
        entry.shape, Widen(data.substr(entry.begin, entry.end - entry.begin), entry.type)};
  }
  if (expected != data.size()) {
    throw Invalid(source, fmt::format("{} bytes after the last tensor", data.size() - expected));
  }
  return file;
}

std::string SerializeSafetensors(const SafetensorsFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  uint64_t offset = 0;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const uint64_t bytes = tensor.values.size() * sizeof(float);
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
    data.append(reinterpret_cast<const char*>(tensor.values.data()), bytes);
  }
  std::string text = header.dump();
  // The reference writer pads the header with spaces to a multiple of 8.
  text.resize(RoundUp(text.size(), 8), ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  }
  return out + text + data;
}

}  // namespace kvant
