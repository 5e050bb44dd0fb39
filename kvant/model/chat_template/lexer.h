// Cuts the source of a template into tokens, with the white space control that Hugging Face sets:
// trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::jinja {

enum class TokenKind {
  kText,  // outside of tags
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // `text` is the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  size_t line = 1;
  std::string text;
  int64_t integer = 0;
  double number = 0;
};

// The last token is kEnd. Throws Error{kInvalidInput} that names the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace kvant::jinja
