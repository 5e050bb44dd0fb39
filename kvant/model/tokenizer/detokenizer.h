// Text from tokens as they come: a token may end in the middle of a character, what is handed on
// never does.
#pragma once

#include <string>
#include <string_view>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

// Bytes in, well-formed UTF-8 out. Wherever the bytes are cut between the calls, the outputs
// together are the text with one U+FFFD for each maximal ill-formed part (what Python calls
// errors="replace").
class Utf8Assembler {
 public:
  // Everything that is settled: up to 3 bytes that may begin a character are held back.
  std::string Append(std::string_view bytes);
  // The end of the text: what is held back can no longer become a character. Another text may
  // follow.
  std::string Flush();

 private:
  std::string held_;
};

// One sequence. `tokenizer` must outlive it.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool show_special = false)
      : tokenizer_(tokenizer), show_special_(show_special) {}

  // Ids outside the vocabulary add nothing, as in Tokenizer::Piece.
  std::string Append(TokenId token) {
    return assembler_.Append(tokenizer_.Piece(token, show_special_));
  }
  std::string Flush() { return assembler_.Flush(); }

 private:
  const Tokenizer& tokenizer_;
  bool show_special_;
  Utf8Assembler assembler_;
};

}  // namespace kvant
