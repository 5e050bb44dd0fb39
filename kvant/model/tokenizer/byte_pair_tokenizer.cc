#include "kvant/model/tokenizer/byte_pair_tokenizer.h"

#include <fmt/format.h>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/merge_queue.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {

namespace {

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

// GPT-2 writes each byte as a printable character: itself where it is printable Latin-1, else the
// next one from U+0100 on.
struct ByteAlphabet {
  std::array<int32_t, 256> code_of{};
  std::unordered_map<int32_t, uint8_t> byte_of;
  ByteAlphabet() {
    int32_t next = 256;
    for (int32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      code_of[static_cast<size_t>(b)] = printable ? b : next++;
      byte_of[code_of[static_cast<size_t>(b)]] = static_cast<uint8_t>(b);
    }
  }
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

// The bytes that a token's text stands for; the text itself if it uses other characters.
std::string BytesOf(const std::string& text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = Utf8At(text, at);
    const auto it = Alphabet().byte_of.find(c.code_point);
    if (it == Alphabet().byte_of.end()) return text;
    bytes.push_back(static_cast<char>(it->second));
    at += c.bytes;
  }
  return bytes;
}

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

constexpr TokenId kMissing = -1;

}  // namespace

BytePairTokenizer::BytePairTokenizer(const TokenizerData& data)
    : Tokenizer(data), pre_(PreTokenizerFromName(data.pre)) {
  bytes_.reserve(data.tokens.size());
  by_bytes_.reserve(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const bool normal = type(token) == TokenType::kNormal;
    bytes_.push_back(normal ? BytesOf(data.tokens[id]) : data.tokens[id]);
    if (!normal) continue;
    if (!by_bytes_.emplace(bytes_.back(), token).second) {
      throw Invalid(fmt::format("token {} stands twice in the vocabulary", id));
    }
  }
  for (size_t b = 0; b < 256; ++b) {
    const auto it = by_bytes_.find(std::string(1, static_cast<char>(b)));
    byte_tokens_[b] = it == by_bytes_.end() ? kMissing : it->second;
  }
  AddMerges(data);
}

void BytePairTokenizer::AddMerges(const TokenizerData& data) {
  merges_.reserve(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string& text = data.merges[rank];
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
    merges_.emplace(PairKey(l->second, r->second),
                    RankedMerge{static_cast<uint32_t>(rank), merged->second});
  }
}

std::string BytePairTokenizer::Piece(TokenId token, bool show_special) const {
  if (token < 0 || static_cast<size_t>(token) >= bytes_.size()) return "";
  if (IsSpecial(token) && !show_special) return "";
  return bytes_[static_cast<size_t>(token)];
}

void BytePairTokenizer::EncodeWord(std::string_view word, std::vector<TokenId>* out) const {
  // Llama 3 takes a word that is a token as it is, whatever its merges would give.
  if (pre_ == PreTokenizer::kLlamaBpe) {
    const auto whole = by_bytes_.find(std::string(word));
    if (whole != by_bytes_.end()) {
      out->push_back(whole->second);
      return;
    }
  }
  std::vector<TokenId> symbols;
  symbols.reserve(word.size());
  for (const char c : word) {
    const TokenId token = byte_tokens_[static_cast<uint8_t>(c)];
    if (token == kMissing) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("tokenizer: the vocabulary has no token for byte 0x{:02X}",
                              static_cast<uint8_t>(c)));
    }
    symbols.push_back(token);
  }
  const std::vector<TokenId> merged =
      MergeSymbols(symbols, [this](TokenId left, TokenId right) -> std::optional<Merge> {
        const auto it = merges_.find(PairKey(left, right));
        if (it == merges_.end()) return std::nullopt;
        return Merge{-static_cast<double>(it->second.rank), it->second.token};
      });
  out->insert(out->end(), merged.begin(), merged.end());
}

void BytePairTokenizer::EncodePart(std::string_view text, bool /*first*/,
                                   std::vector<TokenId>* out) const {
  for (const std::string_view word : SplitWords(pre_, text)) EncodeWord(word, out);
}

}  // namespace kvant
