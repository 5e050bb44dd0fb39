#include "kvant/model/gguf/byte_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/core/file.h"

namespace kvant {

namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path) {}

  std::string name() const override { return file_.path().string(); }
  uint64_t size() const override { return file_.size(); }
  void ReadAt(uint64_t offset, std::span<uint8_t> out) const override { file_.ReadAt(offset, out); }
  void CheckUnchanged() const override { file_.CheckUnchanged(); }

 private:
  ReadOnlyFile file_;
};

class BytesInMemory : public ByteSource {
 public:
  BytesInMemory(std::vector<uint8_t> bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  void ReadAt(uint64_t offset, std::span<uint8_t> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: bytes [{}, {}+{}) lie outside its {} bytes", name_, offset,
                              offset, out.size(), bytes_.size()));
    }
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  void CheckUnchanged() const override {}

 private:
  std::vector<uint8_t> bytes_;
  std::string name_;
};

}  // namespace

std::unique_ptr<ByteSource> OpenFileSource(const std::filesystem::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<ByteSource> MemorySource(std::vector<uint8_t> bytes, std::string name) {
  return std::make_unique<BytesInMemory>(std::move(bytes), std::move(name));
}

}  // namespace kvant
