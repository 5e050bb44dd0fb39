#include "kvant/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kvant/core/error.h"

namespace kvant {

namespace {

std::string Reason() { return std::strerror(errno); }

int64_t ModifiedNs(const struct stat& status) {
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

ReadOnlyFile::ReadOnlyFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: a FIFO is refused below instead of waiting for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open {}: {}", path.string(), Reason()));
  }
  struct stat status {};
  const bool readable = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!readable) {
    ::close(std::exchange(descriptor_, -1));
    throw Error(ErrorCode::kIo, fmt::format("{} is not a regular file", path.string()));
  }
  size_ = static_cast<uint64_t>(status.st_size);
  modified_ns_ = ModifiedNs(status);
}

ReadOnlyFile::~ReadOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadOnlyFile::ReadOnlyFile(ReadOnlyFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      modified_ns_(other.modified_ns_) {}

void ReadOnlyFile::ReadAt(uint64_t offset, std::span<uint8_t> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: bytes [{}, {}+{}) lie outside the file of {} bytes",
                            path_.string(), offset, offset, out.size(), size_),
                "the file is truncated or damaged; fetch it again");
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: read failed at byte {}: {}", path_.string(), offset + done,
                              got == 0 ? "the file shrank while it was read" : Reason()));
    }
    done += static_cast<size_t>(got);
  }
}

void ReadOnlyFile::CheckUnchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || static_cast<uint64_t>(status.st_size) != size_ ||
      ModifiedNs(status) != modified_ns_) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} changed while it was being read", path_.string()),
                "wait until the writer is done and start again");
  }
}

std::string ReadWholeFile(const std::filesystem::path& path, uint64_t max_bytes) {
  const ReadOnlyFile file(path);
  if (file.size() > max_bytes) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} has {} bytes; at most {} are read here",
                                                      path.string(), file.size(), max_bytes));
  }
  std::string content(file.size(), '\0');
  file.ReadAt(0, std::span(reinterpret_cast<uint8_t*>(content.data()), content.size()));
  return content;
}

void WriteFileAtomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write {}: {}", temporary.string(), Reason()));
  }
  auto fail = [&](const std::string& why) {
    ::unlink(temporary.c_str());
    throw Error(ErrorCode::kIo, fmt::format("cannot write {}: {}", path.string(), why),
                "free disk space or choose another folder");
  };
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string why = Reason();
      ::close(descriptor);
      fail(why);
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  const bool flushed = ::fsync(descriptor) == 0;
  const std::string why = Reason();
  ::close(descriptor);
  if (!flushed) fail(why);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail(Reason());
}

void CheckWritable(const std::filesystem::path& path) {
  const std::filesystem::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write {}: {}", path.string(), Reason()),
                "choose a folder that exists and may be written to");
  }
  ::close(descriptor);
  ::unlink(temporary.c_str());
}

void MakeFolder(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot make the folder {}: {}", path.string(), failure.message()),
                "choose a folder that may be written to");
  }
}

}  // namespace kvant
