// A GGUF checkpoint (version 2 or 3, little-endian), opened from untrusted bytes: metadata and
// tensor descriptions in memory, tensor data read on request.
//
// Format: the GGUF specification in ggml's repository (docs/gguf.md). Limits and rules of this
// reader: docs/design/gguf.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/sha256.h"
#include "kvant/model/gguf/byte_source.h"
#include "kvant/model/gguf/gguf_tensor.h"
#include "kvant/model/gguf/gguf_value.h"

namespace kvant {

// Safe for concurrent calls of its const members.
class GgufFile {
 public:
  // Reads and checks the whole header. Throws Error: kNotFound, kIo, kInvalidInput (breaks a rule
  // of the format; the message names the key or tensor), kUnsupported (another version, byte
  // order or weight type, or one part of a split model).
  static GgufFile Open(const std::filesystem::path& path);
  // The same for a file's content in memory; `name` stands for the path in errors.
  static GgufFile FromBytes(std::vector<uint8_t> bytes, std::string name);

  // The path, or the name given to FromBytes.
  const std::string& source() const { return source_; }
  uint32_t version() const { return version_; }

  // Metadata. Each getter throws Error{kInvalidInput} naming the key if it is missing or has
  // another type; the ...Or getters return `fallback` where it is missing, and throw as well where
  // the type is another. Strings are bytes as the file gives them, not proven to be UTF-8.
  bool Has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  const std::string& String(std::string_view key) const;
  std::string StringOr(std::string_view key, std::string_view fallback) const;
  // Any integer type, not negative.
  uint64_t Unsigned(std::string_view key) const;
  uint64_t UnsignedOr(std::string_view key, uint64_t fallback) const;
  // Any number; may be NaN or infinite where the file says so.
  double Float(std::string_view key) const;
  double FloatOr(std::string_view key, double fallback) const;
  bool Bool(std::string_view key) const;
  bool BoolOr(std::string_view key, bool fallback) const;
  const std::vector<std::string>& Strings(std::string_view key) const;
  // An array of any integer type, or of booleans (0 and 1).
  const std::vector<int64_t>& Integers(std::string_view key) const;
  const std::vector<float>& Floats(std::string_view key) const;
  bool IsArray(std::string_view key) const;
  // Everything, sorted by key.
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }

  // Tensors, in the order of the file. Find returns null for a name the file does not have; Get
  // throws Error{kInvalidInput}.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* Find(std::string_view name) const;
  const GgufTensor& Get(std::string_view name) const;

  // Fills `out` with the tensor's packed bytes. REQUIRES: out.size() == tensor.bytes. Throws
  // Error{kIo}, or Error{kInvalidInput} if the file changed since it was opened.
  void ReadTensor(const GgufTensor& tensor, std::span<uint8_t> out) const;

  // SHA-256 of the whole file, which is read once per call. Throws as ReadTensor does.
  Digest digest() const;

 private:
  explicit GgufFile(std::unique_ptr<ByteSource> bytes);

  void ReadMetadata(GgufCursor* cursor, uint64_t count);
  void IndexTensors();
  uint64_t Alignment() const;
  void RefuseSplitModels() const;

  const GgufValue& ValueOf(std::string_view key) const;
  template <typename T>
  const T& Typed(std::string_view key, std::string_view wanted) const;

  std::unique_ptr<ByteSource> bytes_;
  std::string source_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace kvant
