// GPT-2's byte-level byte-pair encoding.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvant/model/tokenizer/pre_tokenizer.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class BytePairTokenizer : public Tokenizer {
 public:
  explicit BytePairTokenizer(const TokenizerData& data);

  std::string Piece(TokenId token, bool show_special) const override;

 protected:
  void EncodePart(std::string_view text, bool first, std::vector<TokenId>* out) const override;

 private:
  struct RankedMerge {
    uint32_t rank;
    TokenId token;
  };
  void AddMerges(const TokenizerData& data);
  void EncodeWord(std::string_view word, std::vector<TokenId>* out) const;

  PreTokenizer pre_;
  std::vector<std::string> bytes_;                      // raw bytes of every token
  std::unordered_map<std::string, TokenId> by_bytes_;   // normal tokens
  std::unordered_map<uint64_t, RankedMerge> merges_;    // left << 32 | right
  std::array<TokenId, 256> byte_tokens_{};
};

}  // namespace kvant
