// SentencePiece's byte-pair encoding by scores, with byte fallback.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvant/model/tokenizer/symbol_merger.h"
#include "kvant/model/tokenizer/token_matcher.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class SentencePieceTokenizer : public Tokenizer {
 public:
  // REQUIRES: `data` passed the checks that every tokenizer needs.
  explicit SentencePieceTokenizer(const TokenizerData& data);

 protected:
  void EncodeOrdinary(std::string_view text, std::vector<TokenId>* out) const override;

 private:
  void IndexPieces(const TokenizerData& data);
  void EncodeBetween(std::string_view text, SymbolMerger* merger, std::vector<TokenId>* out) const;
  void EncodeWord(std::string_view word, SymbolMerger* merger, std::vector<TokenId>* out) const;
  void AppendUnknown(std::string_view character, std::vector<TokenId>* out) const;
  PairMerge Look(std::string_view text) const;

  TokenMatcher user_defined_;
  std::unordered_map<std::string_view, PairMerge> by_text_;  // rank 0: the highest score
  size_t longest_ = 0;                                       // bytes of the longest of these
  // Whether some piece has a space right behind this byte. Where none has, nothing merges across,
  // so that text can be cut there into short words.
  std::array<bool, 256> joins_space_{};
  std::array<TokenId, 256> byte_tokens_{};
  bool has_bytes_ = false;
  TokenId unknown_ = kNoToken;
  bool add_space_prefix_;
};

}  // namespace kvant
