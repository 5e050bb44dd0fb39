// Text to token ids and back, as a checkpoint's tokenizer section says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/model/gguf/gguf_file.h"

namespace kvant {

using TokenId = int32_t;

// GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Everything a tokenizer is made of, so that one can be built without a file.
struct TokenizerData {
  std::string model;  // "gpt2" (byte-level BPE) or "llama" (SentencePiece scores)
  std::string pre;    // gpt2 only: smollm, qwen2, llama-bpe, default (and gpt-2)
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // empty: all normal
  std::vector<float> scores;        // llama only: the higher, the sooner merged
  std::vector<std::string> merges;  // gpt2 only: "left right", best first
  std::optional<TokenId> bos, eos, eot, eom, unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  // llama only: a space before the text and after control tokens
};

struct EncodeOptions {
  // Recognise control tokens written out in the text, and the user-defined ones of a gpt2
  // vocabulary (Qwen's <tool_call>). User-defined pieces of a llama vocabulary (runs of newlines,
  // HTML tags) are ordinary text and always recognised, as SentencePiece does. The longest wins.
  bool parse_special = false;
  // Add the beginning and end tokens that the model wants.
  bool add_special = false;
};

// Longer tokens are refused; the longest of the usual vocabularies has 256 bytes.
inline constexpr size_t kMaxTokenBytes = 4096;
// Longer texts are refused, far beyond any context.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

class TokenMatcher;

// Safe for concurrent calls of its const members.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Any bytes. What is not UTF-8 is encoded byte by byte and decodes to the same bytes. Exceptions
  // to Decode(Encode(text)) == text, all as Hugging Face has them: a gpt2 vocabulary that lacks a
  // byte (smollm2: some control characters) drops it, `qwen2` composes (NFC), and to a llama
  // vocabulary U+2581 is a space. Throws Error{kInvalidInput} beyond kMaxTextBytes, or where the
  // vocabulary has no token at all for a character.
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The raw bytes of one token, which may be part of a character. Control tokens give their text
  // only if asked. Empty for ids outside the vocabulary.
  std::string Piece(TokenId token, bool show_special) const;
  // The pieces, one behind the other; the space that add_space_prefix put there is not taken away.
  std::string Decode(const std::vector<TokenId>& tokens, bool show_special = false) const;

  size_t vocabulary() const { return types_.size(); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  bool adds_bos() const { return add_bos_; }
  bool IsSpecial(TokenId token) const;          // control or unknown
  bool IsEndOfGeneration(TokenId token) const;  // eos, eot, eom and the known names of these
  // The token whose text is exactly this.
  std::optional<TokenId> Find(std::string_view text) const;

 protected:
  // `pieces`: the bytes that each token of `data` stands for in text. `special`: the types that
  // only parse_special recognises. Throws as MakeTokenizer does.
  Tokenizer(const TokenizerData& data, std::vector<std::string> pieces,
            std::initializer_list<TokenType> special);

  // Text without special tokens, not empty, at most kMaxTextBytes, behind the beginning or a
  // special token.
  virtual void EncodeOrdinary(std::string_view text, std::vector<TokenId>* out) const = 0;

  const std::string& piece(TokenId token) const { return pieces_[static_cast<size_t>(token)]; }
  TokenType type(TokenId token) const { return types_[static_cast<size_t>(token)]; }
  TokenMatcher MatcherOf(std::initializer_list<TokenType> types) const;

 private:
  bool Has(TokenId token) const { return token >= 0 && static_cast<size_t>(token) < types_.size(); }
  void FindEndsOfGeneration(const TokenizerData& data);

  std::vector<TokenType> types_;
  std::vector<std::string> pieces_;
  std::unique_ptr<TokenMatcher> special_;
  std::optional<TokenId> bos_, eos_;
  std::vector<TokenId> end_of_generation_;  // sorted
  bool add_bos_;
  bool add_eos_;
};

// Throws Error{kInvalidInput} for vocabularies that contradict themselves (duplicate tokens, merges
// of unknown tokens, byte tokens other than <0x00> … <0xFF>, ids out of range, scores that are not
// numbers), Error{kUnsupported} for a model or pre-tokenizer that Kvant does not have.
std::unique_ptr<Tokenizer> MakeTokenizer(const TokenizerData& data);

// Reads the tokenizer.ggml.* keys.
TokenizerData ReadTokenizerData(const GgufFile& file);

// An estimate of the memory that a tokenizer of this data holds.
uint64_t TokenizerBytes(const TokenizerData& data);

}  // namespace kvant
