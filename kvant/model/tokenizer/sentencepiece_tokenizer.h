// SentencePiece's byte-pair encoding by scores, with byte fallback.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const TokenizerData& data);

  std::string Piece(TokenId token, bool show_special) const override;

 protected:
  void EncodePart(std::string_view text, bool first, std::vector<TokenId>* out) const override;

 private:
  std::vector<std::string> text_;  // "▁" for spaces; raw byte of byte tokens
  std::vector<float> scores_;
  std::unordered_map<std::string, TokenId> by_text_;
  std::array<TokenId, 256> byte_tokens_{};
  std::optional<TokenId> unknown_;
  bool add_space_prefix_;
};

}  // namespace kvant
