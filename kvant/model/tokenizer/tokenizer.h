// Text to token ids and back, as a checkpoint's tokenizer section says.
#pragma once

#include <cstdint>
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
  std::string pre;    // of gpt2: smollm, qwen2, llama-bpe, default (and gpt-2)
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // empty: all normal
  std::vector<float> scores;        // llama only
  std::vector<std::string> merges;  // gpt2 only: "left right", best first
  std::optional<TokenId> bos, eos, eot, unknown;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  // llama only
};

struct EncodeOptions {
  // Recognise control tokens written out in the text. User-defined tokens always are.
  bool parse_special = false;
  // Add the beginning and end tokens that the model wants.
  bool add_special = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes: what is not UTF-8 is encoded byte by byte and decodes to the same bytes.
  std::vector<TokenId> Encode(std::string_view text, const EncodeOptions& options) const;

  // The raw bytes of one token, which may be part of a character. Control tokens give their text
  // only if asked. Empty for ids outside the vocabulary.
  virtual std::string Piece(TokenId token, bool show_special) const = 0;
  std::string Decode(const std::vector<TokenId>& tokens, bool show_special = false) const;

  size_t vocabulary() const { return types_.size(); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  bool adds_bos() const { return add_bos_; }
  bool IsSpecial(TokenId token) const;          // control or unknown
  bool IsEndOfGeneration(TokenId token) const;  // eos, eot and the known names of both
  // The token whose text is exactly this.
  std::optional<TokenId> Find(std::string_view text) const;

 protected:
  explicit Tokenizer(const TokenizerData& data);

  // Text without special tokens. `first`: nothing stands before it.
  virtual void EncodePart(std::string_view text, bool first, std::vector<TokenId>* out) const = 0;

  TokenType type(TokenId token) const { return types_[static_cast<size_t>(token)]; }

 private:
  struct SpecialToken {
    std::string text;
    TokenId id;
    bool user_defined;
  };
  const SpecialToken* SpecialAt(std::string_view text, bool parse_special) const;

  std::vector<TokenType> types_;
  std::vector<std::vector<SpecialToken>> special_by_first_byte_;  // [256], longest first
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
