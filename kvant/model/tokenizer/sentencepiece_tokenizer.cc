#include "kvant/model/tokenizer/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/merge_queue.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

// The byte of "<0x0A>"; throws for anything else.
uint8_t ByteOf(const std::string& text) {
  uint8_t value = 0;
  const bool shaped = text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
  const auto result = shaped ? std::from_chars(text.data() + 3, text.data() + 5, value, 16)
                             : std::from_chars_result{text.data(), std::errc::invalid_argument};
  if (result.ec != std::errc() || result.ptr != text.data() + 5) {
    throw Invalid("a byte token is not <0x00> … <0xFF>");
  }
  return value;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos;) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

constexpr TokenId kMissing = -1;

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const TokenizerData& data)
    : Tokenizer(data),
      text_(data.tokens),
      scores_(data.scores),
      unknown_(data.unknown),
      add_space_prefix_(data.add_space_prefix) {
  if (scores_.empty()) throw Invalid("a SentencePiece vocabulary without scores");
  byte_tokens_.fill(kMissing);
  for (size_t id = 0; id < text_.size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (!std::isfinite(scores_[id])) throw Invalid(fmt::format("token {} has no finite score", id));
    if (type(token) == TokenType::kByte) {
      const uint8_t byte = ByteOf(text_[id]);
      if (byte_tokens_[byte] != kMissing) {
        throw Invalid(fmt::format("byte 0x{:02X} has two tokens", byte));
      }
      byte_tokens_[byte] = token;
      text_[id] = std::string(1, static_cast<char>(byte));
    } else if (type(token) == TokenType::kNormal) {
      if (!by_text_.emplace(text_[id], token).second) {
        throw Invalid(fmt::format("token {} stands twice in the vocabulary", id));
      }
    } else if (type(token) == TokenType::kUserDefined) {
      by_text_.emplace(Replace(text_[id], " ", kSpaceMark), token);
    }
  }
}

std::string SentencePieceTokenizer::Piece(TokenId token, bool show_special) const {
  if (token < 0 || static_cast<size_t>(token) >= text_.size()) return "";
  if (IsSpecial(token)) return show_special ? text_[static_cast<size_t>(token)] : "";
  if (type(token) == TokenType::kByte) return text_[static_cast<size_t>(token)];
  return Replace(text_[static_cast<size_t>(token)], kSpaceMark, " ");
}

void SentencePieceTokenizer::EncodePart(std::string_view raw, bool first,
                                        std::vector<TokenId>* out) const {
  const std::string text = Replace(first && add_space_prefix_ ? " " + std::string(raw)
                                                              : std::string(raw),
                                   " ", kSpaceMark);
  // Symbols are characters: their token if they have one, else a number past the vocabulary for
  // each, so that the merge loop can tell them apart.
  const auto vocabulary_size = static_cast<TokenId>(text_.size());
  std::vector<TokenId> symbols;
  std::vector<std::string_view> unknown_text;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = Utf8At(text, at);
    const std::string_view character = std::string_view(text).substr(at, c.bytes);
    const auto it = by_text_.find(std::string(character));
    if (it != by_text_.end()) {
      symbols.push_back(it->second);
    } else {
      symbols.push_back(vocabulary_size + static_cast<TokenId>(unknown_text.size()));
      unknown_text.push_back(character);
    }
    at += c.bytes;
  }
  const auto marked = [&](TokenId token) -> std::string {
    return type(token) == TokenType::kUserDefined
               ? Replace(text_[static_cast<size_t>(token)], " ", kSpaceMark)
               : text_[static_cast<size_t>(token)];
  };
  const std::vector<TokenId> merged = MergeSymbols(
      symbols, [&](TokenId left, TokenId right) -> std::optional<Merge> {
        if (left >= vocabulary_size || right >= vocabulary_size) return std::nullopt;
        const auto it = by_text_.find(marked(left) + marked(right));
        if (it == by_text_.end()) return std::nullopt;
        return Merge{scores_[static_cast<size_t>(it->second)], it->second};
      });
  for (const TokenId token : merged) {
    if (token < vocabulary_size) {
      out->push_back(token);
      continue;
    }
    for (const char c : unknown_text[static_cast<size_t>(token - vocabulary_size)]) {
      const TokenId byte = byte_tokens_[static_cast<uint8_t>(c)];
      if (byte != kMissing) {
        out->push_back(byte);
      } else if (unknown_) {
        out->push_back(*unknown_);
      } else {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("tokenizer: no token for byte 0x{:02X} and no unknown token",
                                static_cast<uint8_t>(c)));
      }
    }
  }
}

}  // namespace kvant
