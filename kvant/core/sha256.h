// SHA-256 digests (OpenSSL's implementation).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvant {

using Digest = std::array<uint8_t, 32>;

// Lower-case hexadecimal, 64 characters.
std::string Hex(const Digest& digest);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Update(std::span<const uint8_t> bytes);
  // A field with its length before it (8 bytes, little-endian), so that two different lists of
  // fields never give the same stream of bytes.
  Sha256& Field(std::string_view text);
  Sha256& Field(std::span<const uint8_t> bytes);
  Sha256& Field(uint64_t value);

  // REQUIRES: called once, last.
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest Sha256Of(std::span<const uint8_t> bytes);
Digest Sha256Of(std::string_view text);

}  // namespace kvant
