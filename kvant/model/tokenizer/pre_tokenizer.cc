#include "kvant/model/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <array>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther, kEnd };

Kind KindOf(char32_t code_point) {
  const auto code = static_cast<UChar32>(code_point);
  const uint32_t mask = U_GET_GC_MASK(code);
  if ((mask & U_GC_L_MASK) != 0) return Kind::kLetter;
  if ((mask & U_GC_N_MASK) != 0) return Kind::kNumber;
  return u_isUWhiteSpace(code) ? Kind::kSpace : Kind::kOther;
}

struct Character {
  Kind kind = Kind::kEnd;
  uint32_t bytes = 0;
};

Character CharacterAt(std::string_view text, size_t at) {
  static const std::array<Kind, 128> ascii = [] {
    std::array<Kind, 128> kinds{};
    for (char32_t code = 0; code < 128; ++code) kinds[code] = KindOf(code);
    return kinds;
  }();
  if (at >= text.size()) return {};
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 128) return {ascii[byte], 1};
  const Utf8Character character = DecodeUtf8(text, at);
  if (character.form != Utf8Form::kValid) return {Kind::kOther, 1};
  return {KindOf(character.code_point), character.bytes};
}

bool IsNewline(char c) { return c == '\r' || c == '\n'; }

// The end of the run of characters of one kind.
size_t SkipKind(std::string_view text, size_t at, Kind kind) {
  for (Character c; (c = CharacterAt(text, at)).kind == kind;) at += c.bytes;
  return at;
}

// The end of an English contraction ("'s", "'ll") at `at`, or `at` if there is none. With
// `fold_case` as (?i) means it: a long s (U+017F) is an s too.
size_t SkipContraction(std::string_view text, size_t at, bool fold_case) {
  static constexpr std::array<std::string_view, 8> kEndings = {"s", "t",  "re", "ve",
                                                               "m", "ll", "d",  "\xC5\xBF"};
  const std::string_view rest = text.substr(at + 1, 2);
  for (const std::string_view ending : kEndings) {
    if (rest.size() < ending.size()) continue;
    if (!fold_case && ending == kEndings.back()) continue;
    bool equal = true;
    for (size_t i = 0; i < ending.size(); ++i) {
      const char c = rest[i];
      const bool upper = fold_case && c >= 'A' && c <= 'Z';
      equal = equal && (upper ? static_cast<char>(c + ('a' - 'A')) : c) == ending[i];
    }
    if (equal) return at + 1 + ending.size();
  }
  return at;
}

// \s+(?!\S)|\s+ : a run of white space leaves its last character to the word behind it.
// `numbers_end_text`: a number behind the run is where the scanned stretch ends.
size_t SkipSpaces(std::string_view text, size_t at, bool numbers_end_text) {
  size_t last = at;
  size_t end = at;
  for (Character c; (c = CharacterAt(text, end)).kind == Kind::kSpace;) {
    last = end;
    end += c.bytes;
  }
  const Kind next = CharacterAt(text, end).kind;
  const bool at_end = next == Kind::kEnd || (numbers_end_text && next == Kind::kNumber);
  return at_end || last == at ? end : last;
}

// \s*[\r\n]+ : through the last newline of the run of white space, or `at` if it has none.
size_t ThroughLastNewline(std::string_view text, size_t at) {
  size_t through = at;
  for (Character c; (c = CharacterAt(text, at)).kind == Kind::kSpace;) {
    at += c.bytes;
    if (IsNewline(text[at - 1])) through = at;
  }
  return through;
}

size_t Gpt2WordEnd(std::string_view text, size_t begin, bool single_numbers) {
  if (text[begin] == '\'') {
    const size_t end = SkipContraction(text, begin, false);
    if (end != begin) return end;
  }
  const Character first = CharacterAt(text, begin);
  const size_t start = text[begin] == ' ' ? begin + 1 : begin;
  const Kind kind = CharacterAt(text, start).kind;
  if (kind == Kind::kLetter || kind == Kind::kOther) return SkipKind(text, start, kind);
  if (single_numbers && first.kind == Kind::kNumber) return begin + first.bytes;
  if (!single_numbers && kind == Kind::kNumber) return SkipKind(text, start, kind);
  return SkipSpaces(text, begin, single_numbers);
}

size_t Qwen2WordEnd(std::string_view text, size_t begin, int max_digits) {
  if (text[begin] == '\'') {
    const size_t end = SkipContraction(text, begin, true);
    if (end != begin) return end;
  }
  const Character first = CharacterAt(text, begin);
  if (first.kind == Kind::kNumber) {
    size_t end = begin;
    for (int i = 0; i < max_digits; ++i) {
      const Character c = CharacterAt(text, end);
      if (c.kind != Kind::kNumber) break;
      end += c.bytes;
    }
    return end;
  }
  const size_t second = begin + first.bytes;
  if (first.kind == Kind::kLetter) return SkipKind(text, second, Kind::kLetter);
  if (!IsNewline(text[begin]) && CharacterAt(text, second).kind == Kind::kLetter) {
    return SkipKind(text, second, Kind::kLetter);
  }
  const size_t start = text[begin] == ' ' ? second : begin;
  if (CharacterAt(text, start).kind == Kind::kOther) {
    size_t end = SkipKind(text, start, Kind::kOther);
    while (end < text.size() && IsNewline(text[end])) ++end;
    return end;
  }
  const size_t through = ThroughLastNewline(text, begin);
  return through != begin ? through : SkipSpaces(text, begin, false);
}

}  // namespace

PreTokenizer PreTokenizerFromName(std::string_view name) {
  if (name.empty() || name == "default" || name == "gpt-2") return PreTokenizer::kGpt2;
  if (name == "smollm") return PreTokenizer::kSmollm;
  if (name == "qwen2") return PreTokenizer::kQwen2;
  if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") return PreTokenizer::kLlamaBpe;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("tokenizer: pre-tokenizer '{}'", name.substr(0, 64)),
              "supported: smollm, qwen2, llama-bpe, gpt-2, default");
}

size_t WordEnd(PreTokenizer pre, std::string_view text, size_t begin) {
  switch (pre) {
    case PreTokenizer::kGpt2:
      return Gpt2WordEnd(text, begin, false);
    case PreTokenizer::kSmollm:
      return Gpt2WordEnd(text, begin, true);
    case PreTokenizer::kQwen2:
      return Qwen2WordEnd(text, begin, 1);
    case PreTokenizer::kLlamaBpe:
      return Qwen2WordEnd(text, begin, 3);
  }
  return text.size();
}

}  // namespace kvant
