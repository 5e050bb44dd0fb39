#include "kvant/model/tokenizer/byte_pair_tokenizer.h"

#include <fmt/format.h>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/nfc.h"
#include "kvant/model/tokenizer/token_matcher.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

// GPT-2 writes each byte as a printable character: itself where it is printable Latin-1, else the
// next one from U+0100 on. Gives the byte of such a character, or -1.
int ByteOfLetter(char32_t letter) {
  static const std::array<int16_t, 324> bytes = [] {
    std::array<int16_t, 324> table{};
    table.fill(-1);
    size_t next = 256;
    for (int16_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      table[printable ? static_cast<size_t>(b) : next++] = b;
    }
    return table;
  }();
  return letter < bytes.size() ? bytes[letter] : -1;
}

// The bytes that a token's text stands for; the text itself if it uses other characters.
std::string BytesOf(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = DecodeUtf8(text, at);
    const bool valid = character.form == Utf8Form::kValid;
    const int byte = valid ? ByteOfLetter(character.code_point) : -1;
    if (byte < 0) return std::string(text);
    bytes.push_back(static_cast<char>(byte));
    at += character.bytes;
  }
  return bytes;
}

std::vector<std::string> PiecesOf(const TokenizerData& data) {
  std::vector<std::string> pieces;
  pieces.reserve(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const TokenType type = data.types.empty() ? TokenType::kNormal : data.types[id];
    if (type == TokenType::kByte) throw Invalid("a byte-level vocabulary with a byte token");
    pieces.push_back(type == TokenType::kNormal ? BytesOf(data.tokens[id]) : data.tokens[id]);
  }
  return pieces;
}

}  // namespace

BytePairTokenizer::BytePairTokenizer(const TokenizerData& data)
    : Tokenizer(data, PiecesOf(data), {TokenType::kControl, TokenType::kUserDefined}),
      pre_(PreTokenizerFromName(data.pre)),
      merges_(data.merges.size()) {
  by_bytes_.reserve(vocabulary());
  for (size_t id = 0; id < vocabulary(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (type(token) == TokenType::kNormal && !by_bytes_.emplace(piece(token), token).second) {
      throw Invalid(fmt::format("token {} stands for the same bytes as another", id));
    }
  }
  for (size_t b = 0; b < 256; ++b) {
    const auto byte = static_cast<char>(b);
    const auto found = by_bytes_.find(std::string_view(&byte, 1));
    byte_tokens_[b] = found == by_bytes_.end() ? kNoToken : found->second;
  }
  AddMerges(data);
}

void BytePairTokenizer::AddMerges(const TokenizerData& data) {
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view text = data.merges[rank];
    const size_t space = text.find(' ', 1);
    if (space == std::string::npos || space + 1 == text.size()) {
      throw Invalid(fmt::format("merge {} is not a pair", rank));
    }
    const std::string left = BytesOf(text.substr(0, space));
    const std::string right = BytesOf(text.substr(space + 1));
    const auto l = by_bytes_.find(left);
    const auto r = by_bytes_.find(right);
    const auto merged = by_bytes_.find(left + right);
    if (l == by_bytes_.end() || r == by_bytes_.end() || merged == by_bytes_.end()) {
      throw Invalid(fmt::format("merge {} names a token that is not in the vocabulary", rank));
    }
    merges_.Add(l->second, r->second, {static_cast<uint32_t>(rank), merged->second});
  }
}

void BytePairTokenizer::EncodeWord(std::string_view word, SymbolMerger* merger,
                                   std::vector<TokenId>* out) const {
  // Llama 3 takes a word that is a token as it is, whatever its merges would give.
  if (pre_ == PreTokenizer::kLlamaBpe) {
    const auto whole = by_bytes_.find(word);
    if (whole != by_bytes_.end()) {
      out->push_back(whole->second);
      return;
    }
  }
  merger->Clear();
  uint32_t begin = 0;
  for (const char c : word) {
    const TokenId token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token != kNoToken) merger->Add(begin++, 1, token);
  }
  merger->Merge([this](const Symbol& left, const Symbol& right) {
    return merges_.Find(left.token, right.token);
  });
  merger->ForEach([out](const Symbol& symbol) { out->push_back(symbol.token); });
}

void BytePairTokenizer::EncodeOrdinary(std::string_view text, std::vector<TokenId>* out) const {
  std::string composed;
  if (pre_ == PreTokenizer::kQwen2) {
    composed = ToNfc(text);
    text = composed;
  }
  SymbolMerger merger;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = WordEnd(pre_, text, begin);
    EncodeWord(text.substr(begin, end - begin), &merger, out);
    begin = end;
  }
}

}  // namespace kvant
