#include "kvant/core/sha256.h"

#include <openssl/evp.h>

#include <cstring>

#include "kvant/core/error.h"

namespace kvant {

std::string Hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  KVANT_CHECK(state_->context != nullptr);
  KVANT_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::Update(std::span<const uint8_t> bytes) {
  KVANT_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Field(std::span<const uint8_t> bytes) {
  Field(static_cast<uint64_t>(bytes.size()));
  return Update(bytes);
}

Sha256& Sha256::Field(std::string_view text) {
  return Field(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

Sha256& Sha256::Field(uint64_t value) {
  std::array<uint8_t, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return Update(bytes);
}

Digest Sha256::Finish() {
  Digest digest{};
  unsigned int size = 0;
  KVANT_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1);
  KVANT_CHECK(size == digest.size());
  return digest;
}

Digest Sha256Of(std::span<const uint8_t> bytes) { return Sha256().Update(bytes).Finish(); }

Digest Sha256Of(std::string_view text) {
  return Sha256Of(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace kvant
