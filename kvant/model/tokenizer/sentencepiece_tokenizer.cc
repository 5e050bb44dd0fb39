#include "kvant/model/tokenizer/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

// The byte of "<0x0A>"; throws for anything else.
uint8_t ByteOf(std::string_view text) {
  uint8_t value = 0;
  if (text.size() == 6 && text.starts_with("<0x") && text.back() == '>') {
    const auto result = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
    if (result.ec == std::errc() && result.ptr == text.data() + 5) return value;
  }
  throw Invalid("a byte token is not <0x00> … <0xFF>");
}

std::string WithSpaces(std::string_view text) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(kSpaceMark, at)) != std::string_view::npos;) {
    out.append(text.substr(at, found - at)).push_back(' ');
    at = found + kSpaceMark.size();
  }
  return out.append(text.substr(at));
}

TokenType TypeOf(const TokenizerData& data, size_t id) {
  return data.types.empty() ? TokenType::kNormal : data.types[id];
}

std::vector<std::string> PiecesOf(const TokenizerData& data) {
  std::vector<std::string> pieces;
  pieces.reserve(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const TokenType type = TypeOf(data, id);
    if (type == TokenType::kByte) {
      pieces.emplace_back(1, static_cast<char>(ByteOf(data.tokens[id])));
    } else if (type == TokenType::kControl || type == TokenType::kUnknown) {
      pieces.push_back(data.tokens[id]);
    } else {
      pieces.push_back(WithSpaces(data.tokens[id]));
    }
  }
  return pieces;
}

// Per token: how many different scores are higher.
std::vector<uint32_t> RanksOf(const std::vector<float>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<uint32_t> ranks(scores.size());
  for (size_t i = 1; i < order.size(); ++i) {
    const bool lower = scores[order[i]] < scores[order[i - 1]];
    ranks[order[i]] = ranks[order[i - 1]] + (lower ? 1 : 0);
  }
  return ranks;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const TokenizerData& data)
    : Tokenizer(data, PiecesOf(data), {TokenType::kControl}),
      user_defined_(MatcherOf({TokenType::kUserDefined})),
      unknown_(data.unknown.value_or(kNoToken)),
      add_space_prefix_(data.add_space_prefix) {
  if (data.scores.empty()) throw Invalid("a SentencePiece vocabulary without scores");
  for (size_t id = 0; id < data.scores.size(); ++id) {
    if (!std::isfinite(data.scores[id])) {
      throw Invalid(fmt::format("token {} has no finite score", id));
    }
  }
  IndexPieces(data);
}

void SentencePieceTokenizer::IndexPieces(const TokenizerData& data) {
  const std::vector<uint32_t> ranks = RanksOf(data.scores);
  byte_tokens_.fill(kNoToken);
  by_text_.reserve(vocabulary());
  size_t num_bytes = 0;
  for (size_t id = 0; id < vocabulary(); ++id) {
    const auto token = static_cast<TokenId>(id);
    const std::string& text = piece(token);
    if (type(token) == TokenType::kByte) {
      TokenId& byte_token = byte_tokens_[static_cast<uint8_t>(text[0])];
      if (byte_token != kNoToken) throw Invalid("a byte with two tokens");
      byte_token = token;
      ++num_bytes;
    } else if (type(token) == TokenType::kNormal || type(token) == TokenType::kUserDefined) {
      by_text_.emplace(text, PairMerge{ranks[id], token});
      longest_ = std::max(longest_, text.size());
      for (size_t i = 1; i < text.size(); ++i) {
        if (text[i] == ' ') joins_space_[static_cast<uint8_t>(text[i - 1])] = true;
      }
    }
  }
  if (num_bytes != 0 && num_bytes != 256) {
    throw Invalid(fmt::format("{} byte tokens; all 256 or none are possible", num_bytes));
  }
  has_bytes_ = num_bytes == 256;
}

PairMerge SentencePieceTokenizer::Look(std::string_view text) const {
  if (text.size() > longest_) return {};
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? PairMerge{} : found->second;
}

void SentencePieceTokenizer::AppendUnknown(std::string_view character,
                                           std::vector<TokenId>* out) const {
  if (has_bytes_) {
    for (const char c : character) out->push_back(byte_tokens_[static_cast<uint8_t>(c)]);
    return;
  }
  if (unknown_ == kNoToken) {
    throw Error(ErrorCode::kInvalidInput,
                "tokenizer: the text has a character for which the vocabulary has no token",
                "use a model whose vocabulary has byte tokens or an unknown token");
  }
  // A run of unknown characters is one unknown token.
  if (out->empty() || out->back() != unknown_) out->push_back(unknown_);
}

void SentencePieceTokenizer::EncodeWord(std::string_view word, SymbolMerger* merger,
                                        std::vector<TokenId>* out) const {
  merger->Clear();
  for (size_t at = 0; at < word.size();) {
    const Utf8Character character = DecodeUtf8(word, at);
    const uint32_t bytes = character.form == Utf8Form::kValid ? character.bytes : 1;
    merger->Add(static_cast<uint32_t>(at), bytes, Look(word.substr(at, bytes)).token);
    at += bytes;
  }
  merger->Merge([&](const Symbol& left, const Symbol& right) {
    return Look(word.substr(left.begin, left.bytes + right.bytes));
  });
  merger->ForEach([&](const Symbol& symbol) {
    if (symbol.token != kNoToken) {
      out->push_back(symbol.token);
    } else {
      AppendUnknown(word.substr(symbol.begin, symbol.bytes), out);
    }
  });
}

void SentencePieceTokenizer::EncodeBetween(std::string_view text, SymbolMerger* merger,
                                           std::vector<TokenId>* out) const {
  size_t begin = 0;
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == ' ' && !joins_space_[static_cast<uint8_t>(text[at - 1])]) {
      EncodeWord(text.substr(begin, at - begin), merger, out);
      begin = at;
    }
  }
  EncodeWord(text.substr(begin), merger, out);
}

void SentencePieceTokenizer::EncodeOrdinary(std::string_view text,
                                            std::vector<TokenId>* out) const {
  std::string spaced = add_space_prefix_ ? " " : "";
  spaced += WithSpaces(text);
  SymbolMerger merger;
  user_defined_.Split(
      spaced, [&](std::string_view part) { EncodeBetween(part, &merger, out); },
      [&](TokenId token) { out->push_back(token); });
}

}  // namespace kvant
