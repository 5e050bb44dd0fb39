// Small vocabularies, as a file would give them. Tests and fuzzing only.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

// GPT-2's letter for a byte, in UTF-8.
inline std::string ByteLetter(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  int letter = byte;
  if (!printable(byte)) {
    letter = 256;
    for (int b = 0; b < byte; ++b) letter += printable(b) ? 0 : 1;
  }
  if (letter < 0x80) return std::string(1, static_cast<char>(letter));
  return {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
}

inline void AddToken(TokenizerData* data, std::string text, TokenType type, float score = 0) {
  data->tokens.push_back(std::move(text));
  data->types.push_back(type);
  if (data->model == "llama") data->scores.push_back(score);
}

// All bytes, a few merges, <|end|> (control) and <call> (user-defined).
inline TokenizerData SmallBytePair() {
  TokenizerData data;
  data.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) AddToken(&data, ByteLetter(byte), TokenType::kNormal);
  for (const std::string merge : {"a a", "aa aa", "h e", "l l", "he ll", "hell o", "\xC4\xA0 hello",
                                  "\xC3\x83 \xC2\xA9", "< |", "<| e", "n d", "\xC4\x8A \xC4\x8A"}) {
    data.merges.push_back(merge);
    std::string merged = merge;
    merged.erase(std::remove(merged.begin(), merged.end(), ' '), merged.end());
    AddToken(&data, merged, TokenType::kNormal);
  }
  AddToken(&data, "<|end|>", TokenType::kControl);
  AddToken(&data, "<call>", TokenType::kUserDefined);
  return data;
}

// `num_letters` letters from "a" on and random merges of what is there. REQUIRES: 1 to 26 letters.
inline TokenizerData RandomMerges(Random* random, uint64_t num_letters, uint64_t num_merges) {
  TokenizerData data;
  data.model = "gpt2";
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    AddToken(&data, std::string(1, letter), TokenType::kNormal);
  }
  std::vector<std::string> parts(data.tokens.begin(),
                                 data.tokens.begin() + static_cast<std::ptrdiff_t>(num_letters));
  for (uint64_t i = 0; i < num_merges; ++i) {
    const std::string left = parts[random->Below(parts.size())];
    const std::string right = parts[random->Below(parts.size())];
    const std::string merge = left + " " + right;
    if (std::find(data.merges.begin(), data.merges.end(), merge) != data.merges.end()) continue;
    data.merges.push_back(merge);
    if (std::find(data.tokens.begin(), data.tokens.end(), left + right) != data.tokens.end())
      continue;
    AddToken(&data, left + right, TokenType::kNormal);
    parts.push_back(left + right);
  }
  return data;
}

// <unk>, <s>, all bytes, pieces over a, b, c and space, user-defined newlines and <td>.
inline TokenizerData SmallSentencePiece() {
  TokenizerData data;
  data.model = "llama";
  data.unknown = 0;
  AddToken(&data, "<unk>", TokenType::kUnknown);
  AddToken(&data, "<s>", TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(&data, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  float score = -1;
  for (const char* piece : {"bc", "ab", "aa",
                            "\xE2\x96\x81"
                            "a",
                            "\xE2\x96\x81"
                            "ab",
                            "<t", "td>", "b<", "\xE2\x96\x81\xE2\x96\x81", "\xE2\x96\x81", "a", "b",
                            "c", "d", "t", "<", ">", "z", "\xF0\x9F\x98\x80"}) {
    AddToken(&data, piece, TokenType::kNormal, score--);
  }
  for (const char* piece : {"\n", "\n\n", "<td>"}) {
    AddToken(&data, piece, TokenType::kUserDefined, -1000);
  }
  return data;
}

}  // namespace kvant
