#include "kvant/model/tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <array>
#include <string>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {

namespace {

enum class Kind { kLetter, kNumber, kSpace, kOther };

Kind KindOf(int32_t code) {
  if (code < 0) return Kind::kOther;
  const uint32_t mask = U_GET_GC_MASK(code);
  if ((mask & U_GC_L_MASK) != 0) return Kind::kLetter;
  if ((mask & U_GC_N_MASK) != 0) return Kind::kNumber;
  if (u_hasBinaryProperty(code, UCHAR_WHITE_SPACE)) return Kind::kSpace;
  return Kind::kOther;
}

struct Character {
  Kind kind = Kind::kOther;
  int32_t code = -1;
  size_t begin = 0;
  size_t end = 0;
};

bool IsNewline(const Character& c) { return c.code == '\r' || c.code == '\n'; }

// One text as characters, and the scanners' small steps over them.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    for (size_t at = 0; at < text.size();) {
      const Utf8Character c = Utf8At(text, at);
      characters_.push_back({KindOf(c.code_point), c.code_point, at, at + c.bytes});
      at += c.bytes;
    }
  }

  size_t size() const { return characters_.size(); }
  const Character& at(size_t i) const { return characters_[i]; }
  bool Is(size_t i, Kind kind) const { return i < size() && at(i).kind == kind; }

  // First index from i on that is not of this kind.
  size_t SkipKind(size_t i, Kind kind) const {
    while (Is(i, kind)) ++i;
    return i;
  }
  size_t SkipNewlines(size_t i) const {
    while (i < size() && IsNewline(at(i))) ++i;
    return i;
  }

  std::string_view Text(size_t begin, size_t end) const {
    return text_.substr(at(begin).begin, at(end - 1).end - at(begin).begin);
  }

  // Characters of an English contraction at i ("'s", "'ll"), or 0.
  size_t Contraction(size_t i, bool ignore_case) const {
    if (i >= size() || at(i).code != '\'') return 0;
    static constexpr std::array<std::string_view, 7> kEndings = {"s", "t",  "re", "ve",
                                                                 "m", "ll", "d"};
    for (const std::string_view ending : kEndings) {
      bool equal = i + ending.size() < size();
      for (size_t j = 0; equal && j < ending.size(); ++j) {
        equal = Fold(at(i + 1 + j).code, ignore_case) == ending[j];
      }
      if (equal) return 1 + ending.size();
    }
    return 0;
  }

  // \s+(?!\S)|\s+ at i: leaves the last space to the word behind it.
  size_t Spaces(size_t i) const {
    const size_t end = SkipKind(i, Kind::kSpace);
    return end == size() || end - i == 1 ? end : end - 1;
  }

 private:
  static int32_t Fold(int32_t code, bool ignore_case) {
    if (!ignore_case || code < 0) return code;
    return u_foldCase(code, U_FOLD_CASE_DEFAULT);
  }

  std::string_view text_;
  std::vector<Character> characters_;
};

size_t NextGpt2(const Scanner& s, size_t i) {
  if (const size_t n = s.Contraction(i, false)) return i + n;
  const size_t start = s.at(i).code == ' ' ? i + 1 : i;
  for (const Kind kind : {Kind::kLetter, Kind::kNumber, Kind::kOther}) {
    if (s.Is(start, kind)) return s.SkipKind(start, kind);
  }
  return s.Spaces(i);
}

// \s*[\r\n]+ at i: up to the last newline of the run of spaces; 0 if it has none.
size_t ThroughLastNewline(const Scanner& s, size_t i) {
  const size_t end = s.SkipKind(i, Kind::kSpace);
  for (size_t j = end; j > i; --j) {
    if (IsNewline(s.at(j - 1))) return j;
  }
  return 0;
}

size_t NextQwen2(const Scanner& s, size_t i, size_t digits) {
  if (const size_t n = s.Contraction(i, true)) return i + n;
  const Character& c = s.at(i);
  if (c.kind == Kind::kLetter) return s.SkipKind(i, Kind::kLetter);
  const bool may_lead = c.kind != Kind::kNumber && !IsNewline(c);
  if (may_lead && s.Is(i + 1, Kind::kLetter)) return s.SkipKind(i + 1, Kind::kLetter);
  if (c.kind == Kind::kNumber) {
    size_t end = i;
    while (end - i < digits && s.Is(end, Kind::kNumber)) ++end;
    return end;
  }
  const size_t start = c.code == ' ' ? i + 1 : i;
  if (s.Is(start, Kind::kOther)) return s.SkipNewlines(s.SkipKind(start, Kind::kOther));
  if (const size_t end = ThroughLastNewline(s, i)) return end;
  return s.Spaces(i);
}

template <typename Next>
void Split(std::string_view text, const Next& next, std::vector<std::string_view>* words) {
  const Scanner scanner(text);
  for (size_t i = 0; i < scanner.size();) {
    const size_t end = next(scanner, i);
    words->push_back(scanner.Text(i, end));
    i = end;
  }
}

void SplitSmollm(std::string_view text, std::vector<std::string_view>* words) {
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = Utf8At(text, at);
    if (KindOf(c.code_point) == Kind::kNumber) {
      Split(text.substr(start, at - start), NextGpt2, words);
      words->push_back(text.substr(at, c.bytes));
      start = at + c.bytes;
    }
    at += c.bytes;
  }
  Split(text.substr(start), NextGpt2, words);
}

}  // namespace

PreTokenizer PreTokenizerFromName(std::string_view name) {
  if (name == "default" || name == "gpt-2") return PreTokenizer::kGpt2;
  if (name == "smollm") return PreTokenizer::kSmollm;
  if (name == "qwen2") return PreTokenizer::kQwen2;
  if (name == "llama-bpe" || name == "llama3") return PreTokenizer::kLlamaBpe;
  throw Error(ErrorCode::kUnsupported, fmt::format("pre-tokenizer '{}'", name),
              "supported: smollm, qwen2, llama-bpe, gpt-2, default");
}

std::vector<std::string_view> SplitWords(PreTokenizer pre, std::string_view text) {
  std::vector<std::string_view> words;
  switch (pre) {
    case PreTokenizer::kGpt2: Split(text, NextGpt2, &words); break;
    case PreTokenizer::kSmollm: SplitSmollm(text, &words); break;
    case PreTokenizer::kQwen2:
      Split(text, [](const Scanner& s, size_t i) { return NextQwen2(s, i, 1); }, &words);
      break;
    case PreTokenizer::kLlamaBpe:
      Split(text, [](const Scanner& s, size_t i) { return NextQwen2(s, i, 3); }, &words);
      break;
  }
  return words;
}

}  // namespace kvant
