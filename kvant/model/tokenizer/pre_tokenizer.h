// Cutting text into the words that byte-level BPE never merges across.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvant {

// Scanners over Unicode categories that cut as these regular expressions do:
//   kGpt2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   kSmollm    every \p{N} is a word of its own; kGpt2 on each stretch between them
//   kQwen2     (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
//              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   kLlamaBpe  the same with \p{N}{1,3}
// A byte that is not part of well-formed UTF-8 counts as a character that is no letter, number or
// space, as the U+FFFD would that a lossy decoder puts there.
enum class PreTokenizer { kGpt2, kSmollm, kQwen2, kLlamaBpe };

// GGUF's tokenizer.ggml.pre; "default" is GPT-2's. Throws Error{kUnsupported} for names that Kvant
// does not have.
PreTokenizer PreTokenizerFromName(std::string_view name);

// Where the word that starts at `begin` ends. REQUIRES: begin < text.size(), and a word ends (or
// the text starts) at `begin`.
size_t WordEnd(PreTokenizer pre, std::string_view text, size_t begin);

}  // namespace kvant
