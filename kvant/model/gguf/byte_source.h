// Where the bytes of a GGUF come from: a file on disk, or memory (tests and fuzzing).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kvant {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // What error messages call it.
  virtual std::string name() const = 0;
  virtual uint64_t size() const = 0;

  // Fills `out` from `offset`. Throws Error{kInvalidInput} if the range lies outside the source,
  // Error{kIo} if the read failed.
  virtual void ReadAt(uint64_t offset, std::span<uint8_t> out) const = 0;

  // Throws Error{kInvalidInput} if the content changed since the source was opened.
  virtual void CheckUnchanged() const = 0;
};

// Throws Error{kNotFound} or Error{kIo}.
std::unique_ptr<ByteSource> OpenFileSource(const std::filesystem::path& path);

std::unique_ptr<ByteSource> MemorySource(std::vector<uint8_t> bytes, std::string name);

}  // namespace kvant
