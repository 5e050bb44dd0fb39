#include "kvant/model/gguf/gguf_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>

#include "kvant/core/error.h"
#include "kvant/model/gguf/gguf_limits.h"

namespace kvant {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are copied as they are");

namespace {

// Large enough that system calls do not count, small enough to stay in cache.
constexpr uint64_t kBufferBytes = 256 * 1024;

constexpr std::string_view kDamaged = "the file is truncated or damaged; fetch it again";

}  // namespace

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string printable(text.substr(0, max_bytes));
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > max_bytes) printable += "…";
  return printable;
}

GgufCursor::GgufCursor(const ByteSource& source)
    : source_(source),
      limit_(std::min(source.size(), kMaxGgufHeaderBytes)),
      buffer_(std::min(kBufferBytes, limit_)) {}

std::string GgufCursor::ReadString(uint64_t max_bytes, std::string_view what) {
  const uint64_t size = Read<uint64_t>(what);
  if (size > max_bytes) {
    Refuse(fmt::format("{} claims {} bytes; at most {} are read", what, size, max_bytes), kDamaged);
  }
  Require(size, what);
  std::string text(size, '\0');
  const size_t at_hand = std::min<size_t>(size, buffered_ - used_);
  std::memcpy(text.data(), buffer_.data() + used_, at_hand);
  used_ += at_hand;
  if (at_hand < size) {
    const size_t missing = size - at_hand;
    source_.ReadAt(position(),
                   std::span(reinterpret_cast<uint8_t*>(text.data()) + at_hand, missing));
    buffer_start_ = position() + missing;
    buffered_ = used_ = 0;
  }
  return text;
}

void GgufCursor::RequireItems(uint64_t count, uint64_t bytes_each, std::string_view what) const {
  if (count <= remaining() / bytes_each) return;
  Refuse(fmt::format("{} claims {} items of at least {} bytes at byte {}, but only {} bytes {}",
                     what, count, bytes_each, position(), remaining(),
                     limit_ == source_.size() ? "remain" : "of header may follow"),
         kDamaged);
}

void GgufCursor::Refuse(std::string_view message, std::string_view hint) const {
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("{}: {}: {}", source_.name(), context_, message), std::string(hint));
}

void GgufCursor::RefuseAsUnsupported(std::string_view message, std::string_view hint) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}: {}", source_.name(), context_, message),
              std::string(hint));
}

void GgufCursor::Require(uint64_t bytes, std::string_view what) const {
  if (bytes <= remaining()) return;
  if (limit_ < source_.size()) {
    Refuse(fmt::format("{} lies beyond the {} bytes that a header may have", what, limit_));
  }
  Refuse(fmt::format("{} needs {} bytes at byte {}, but only {} remain", what, bytes, position(),
                     remaining()),
         kDamaged);
}

void GgufCursor::Refill() {
  const size_t left = buffered_ - used_;
  std::memmove(buffer_.data(), buffer_.data() + used_, left);
  buffer_start_ += used_;
  used_ = 0;
  const uint64_t next = buffer_start_ + left;
  const size_t more = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - left, limit_ - next));
  source_.ReadAt(next, std::span(buffer_.data() + left, more));
  buffered_ = left + more;
}

}  // namespace kvant
