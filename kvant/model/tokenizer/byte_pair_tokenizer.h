// GPT-2's byte-level byte-pair encoding.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kvant/model/tokenizer/merge_table.h"
#include "kvant/model/tokenizer/pre_tokenizer.h"
#include "kvant/model/tokenizer/symbol_merger.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class BytePairTokenizer : public Tokenizer {
 public:
  // REQUIRES: `data` passed the checks that every tokenizer needs.
  explicit BytePairTokenizer(const TokenizerData& data);

 protected:
  void EncodeOrdinary(std::string_view text, std::vector<TokenId>* out) const override;

 private:
  void AddMerges(const TokenizerData& data);
  void EncodeWord(std::string_view word, SymbolMerger* merger, std::vector<TokenId>* out) const;

  PreTokenizer pre_;
  std::unordered_map<std::string_view, TokenId> by_bytes_;  // normal tokens
  std::array<TokenId, 256> byte_tokens_{};
  MergeTable merges_;
};

}  // namespace kvant
