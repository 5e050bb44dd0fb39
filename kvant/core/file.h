// Files: checked reads of untrusted input, and writes that leave either the whole new file or the
// old one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvant {

// A file opened for reading at offsets (pread, never mmap: a file that shrinks while it is read
// gives an error, not SIGBUS).
class ReadOnlyFile {
 public:
  // Throws Error{kNotFound} or Error{kIo}.
  explicit ReadOnlyFile(const std::filesystem::path& path);
  ~ReadOnlyFile();
  ReadOnlyFile(ReadOnlyFile&& other) noexcept;
  ReadOnlyFile& operator=(ReadOnlyFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Fills `out` from `offset`. Throws Error{kInvalidInput} if the range does not lie in the file
  // as it was when opened, Error{kIo} if the file shrank or the read failed.
  void ReadAt(uint64_t offset, std::span<uint8_t> out) const;

  // Throws Error{kInvalidInput} if the file's size or modification time changed since it was
  // opened.
  void CheckUnchanged() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// Throws Error{kInvalidInput} if the file is larger than max_bytes.
std::string ReadWholeFile(const std::filesystem::path& path, uint64_t max_bytes);

// Writes to a temporary file beside `path`, flushes it to disk and renames it over `path`. On any
// failure (disk full, …) throws Error{kIo}, removes the temporary and leaves `path` as it was.
void WriteFileAtomically(const std::filesystem::path& path, std::string_view content);

// Throws Error{kIo} if a file cannot be written at `path`, so that a long run does not find out at
// its end.
void CheckWritable(const std::filesystem::path& path);

// Makes the folder and those above it. Throws Error{kIo}.
void MakeFolder(const std::filesystem::path& path);

}  // namespace kvant
