// Cutting text into the words that byte-pair encoding never merges across.
#pragma once

#include <string_view>
#include <vector>

namespace kvant {

enum class PreTokenizer { kGpt2, kSmollm, kQwen2, kLlamaBpe };

// GGUF's tokenizer.ggml.pre. Throws Error{kUnsupported} for names that Kvant does not have.
PreTokenizer PreTokenizerFromName(std::string_view name);

// Words in order; together they are the text. Scanners over Unicode categories that do what the
// models' regular expressions say:
//   kGpt2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   kSmollm    every \p{N} is a word of its own, then kGpt2 on what lies between
//   kQwen2     (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//              \s+(?!\S)|\s+
//   kLlamaBpe  the same with \p{N}{1,3}
// A byte that is not UTF-8 counts as a character that is no letter, number or space.
std::vector<std::string_view> SplitWords(PreTokenizer pre, std::string_view text);

}  // namespace kvant
