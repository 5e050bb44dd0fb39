// Reads a GGUF header from front to back, buffered, every length checked before it is used.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kvant/model/gguf/byte_source.h"

namespace kvant {

// At most `max_bytes` of text that came from a file, safe to print: everything but printable ASCII
// becomes '?', what is cut off becomes "…".
std::string Printable(std::string_view text, size_t max_bytes = 80);

class GgufCursor {
 public:
  // REQUIRES: `source` outlives the cursor. Nothing beyond kMaxGgufHeaderBytes is read.
  explicit GgufCursor(const ByteSource& source);

  // Bytes read so far.
  uint64_t position() const { return buffer_start_ + used_; }

  // What is being read ("metadata 'general.name'"); errors name it.
  void SetContext(std::string context) { context_ = std::move(context); }

  // One little-endian number. `what` names it in errors.
  template <typename T>
  T Read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value;
    if (buffered_ - used_ < sizeof(T)) [[unlikely]] {
      Require(sizeof(T), what);
      Refill();
    }
    std::memcpy(&value, buffer_.data() + used_, sizeof(T));
    used_ += sizeof(T);
    return value;
  }

  // A 64-bit length and that many bytes.
  std::string ReadString(uint64_t max_bytes, std::string_view what);

  // Throws unless `count` items of at least `bytes_each` can still follow.
  void RequireItems(uint64_t count, uint64_t bytes_each, std::string_view what) const;

  // Throws Error{kInvalidInput} that names the source and the context.
  [[noreturn]] void Refuse(std::string_view message, std::string_view hint = "") const;
  // The same with Error{kUnsupported}: well-formed, but nothing that Kvant reads.
  [[noreturn]] void RefuseAsUnsupported(std::string_view message, std::string_view hint) const;

 private:
  uint64_t remaining() const { return limit_ - position(); }
  void Require(uint64_t bytes, std::string_view what) const;
  // Moves what is left to the front and reads on. REQUIRES: bytes remain.
  void Refill();

  const ByteSource& source_;
  const uint64_t limit_;
  std::string context_ = "header";
  std::vector<uint8_t> buffer_;
  uint64_t buffer_start_ = 0;  // offset in the source of buffer_[0]
  size_t buffered_ = 0;
  size_t used_ = 0;
};

}  // namespace kvant
