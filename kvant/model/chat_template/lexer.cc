#include "kvant/model/chat_template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

[[noreturn]] void FailAt(size_t line, std::string_view what) {
  throw Error(ErrorCode::kInvalidInput, fmt::format("chat template, line {}: {}", line, what));
}

bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDecimal(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDecimal(c); }

// All line ends become \n, and one at the very end is dropped, as Jinja does.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (position_ < source_.size()) ReadRoot();
    Push(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(position_); }
  char At(size_t offset) const {
    return position_ + offset < source_.size() ? source_[position_ + offset] : '\0';
  }

  // Moves on and counts lines.
  void Advance(size_t count) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(position_);
    line_ +=
        static_cast<size_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
    position_ += count;
    if (count > 0) line_starts_ = source_[position_ - 1] == '\n';
  }

  void SkipBlanks() {
    size_t count = 0;
    while (position_ + count < source_.size() && IsBlank(At(count))) ++count;
    if (count > 0) Advance(count);
  }

  Token& Push(TokenKind kind, std::string text = "") {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
    return tokens_.back();
  }

  // The next tag at or after the position, or the end of the source.
  size_t FindTag() const {
    for (size_t at = source_.find('{', position_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') return at;
    }
    return source_.size();
  }

  // Text up to `end`, less the white space that the tag after it takes.
  void PushText(size_t end, bool lstrip) {
    std::string_view text = std::string_view(source_).substr(position_, end - position_);
    const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
    const bool at_tag = end < source_.size();
    if (at_tag && sign == '-') {
      text = Strip(text, nullptr, Side::kRight);
    } else if (at_tag && sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool blank = Strip(text.substr(start), nullptr, Side::kBoth).empty();
      if ((start > 0 || line_starts_) && blank) text = text.substr(0, start);
    }
    if (!text.empty()) Push(TokenKind::kText, std::string(text));
    Advance(end - position_);
  }

  void ReadRoot() {
    const size_t tag = FindTag();
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    PushText(tag, kind != '{');
    if (tag >= source_.size()) return;
    if (kind == '#') return ReadComment();
    if (kind == '%' && ReadRaw()) return;
    Push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kOutputBegin);
    Advance(2);
    if (At(0) == '-' || At(0) == '+') Advance(1);
    ReadTag(kind == '%');
  }

  // Moves past the end of a block or comment, whose two closing characters are `close`, and the
  // white space that goes with it. `position_` is at the sign or at `close`.
  void PassEnd() {
    const char sign = At(0);
    if (sign == '-' || sign == '+') Advance(1);
    Advance(2);
    if (sign == '-') {
      SkipAllSpace();
    } else if (sign != '+' && At(0) == '\n') {
      Advance(1);
    }
  }

  void SkipAllSpace() {
    const std::string_view rest = Rest();
    Advance(rest.size() - Strip(rest, nullptr, Side::kLeft).size());
  }

  void ReadComment() {
    const size_t start = position_ + (At(2) == '-' || At(2) == '+' ? 3 : 2);
    const size_t end = source_.find("#}", start);
    if (end == std::string::npos) FailAt(line_, "the comment has no end");
    const bool signed_end = end > start && (source_[end - 1] == '-' || source_[end - 1] == '+');
    Advance(end - (signed_end ? 1 : 0) - position_);
    PassEnd();
  }

  // True if `name` alone stands in the block tag at `at`; `end` is then at its sign or close.
  bool IsLoneBlock(size_t at, std::string_view name, size_t& end) const {
    const std::string_view all = source_;
    size_t i = at + 2;
    if (i < all.size() && (all[i] == '-' || all[i] == '+')) ++i;
    while (i < all.size() && IsBlank(all[i])) ++i;
    if (!all.substr(i).starts_with(name)) return false;
    i += name.size();
    while (i < all.size() && IsBlank(all[i])) ++i;
    end = i;
    const std::string_view rest = all.substr(i);
    return rest.starts_with("%}") || rest.starts_with("-%}") || rest.starts_with("+%}");
  }

  bool ReadRaw() {
    size_t end = 0;
    if (!IsLoneBlock(position_, "raw", end)) return false;
    Advance(end - position_);
    // Jinja does not trim the line after the opening tag of raw.
    const bool strips = At(0) == '-';
    Advance(At(0) == '%' ? 2 : 3);
    if (strips) SkipAllSpace();
    for (size_t at = source_.find("{%", position_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      if (!IsLoneBlock(at, "endraw", end)) continue;
      PushText(at, true);
      Advance(end - position_);
      PassEnd();
      return true;
    }
    FailAt(line_, "'raw' has no 'endraw'");
  }

  // True if the tag ends here; moves past its end.
  bool PassTagEnd(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    const std::string_view rest = Rest();
    const bool plain = rest.starts_with(close);
    const bool stripped = rest.starts_with('-') && rest.substr(1).starts_with(close);
    const bool kept = block && rest.starts_with('+') && rest.substr(1).starts_with(close);
    if (!plain && !stripped && !kept) return false;
    Push(block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd);
    if (block || stripped) {
      PassEnd();
    } else {
      Advance(2);
    }
    return true;
  }

  void ReadTag(bool block) {
    const size_t opened = line_;
    std::string brackets;
    while (true) {
      SkipBlanks();
      if (position_ >= source_.size()) FailAt(opened, "the tag has no end");
      if (brackets.empty() && PassTagEnd(block)) return;
      const char c = At(0);
      if (IsDecimal(c)) {
        ReadNumber();
      } else if (IsNameStart(c)) {
        size_t count = 1;
        while (IsNamePart(At(count))) ++count;
        Push(TokenKind::kName, std::string(Rest().substr(0, count)));
        Advance(count);
      } else if (c == '"' || c == '\'') {
        ReadString(c);
      } else {
        ReadOperator(brackets);
      }
    }
  }

  void ReadOperator(std::string& brackets) {
    constexpr auto kDouble = std::to_array<std::string_view>({"//", "**", "==", "!=", "<=", ">="});
    constexpr std::string_view kSingle = "+-/*%~[](){}<>=.:|,";
    const std::string_view rest = Rest();
    for (const std::string_view two : kDouble) {
      if (!rest.starts_with(two)) continue;
      Push(TokenKind::kOperator, std::string(two));
      return Advance(2);
    }
    const char c = rest[0];
    if (kSingle.find(c) == std::string_view::npos) FailAt(line_, "a character has no meaning here");
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : (c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c) {
        FailAt(line_, fmt::format("'{}' closes nothing", c));
      }
      brackets.pop_back();
    }
    Push(TokenKind::kOperator, std::string(1, c));
    Advance(1);
  }

  // Digits of `base` with single underscores between them, from `offset`; gives how many
  // characters.
  size_t CountDigits(size_t offset, int base) const {
    const auto is_digit = [base](char c) {
      if (base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) return true;
      return c >= '0' && c < '0' + std::min(base, 10);
    };
    size_t count = 0;
    while (is_digit(At(offset + count)) ||
           (At(offset + count) == '_' && is_digit(At(offset + count + 1)))) {
      ++count;
    }
    return count;
  }

  void ReadNumber() {
    const char mark = static_cast<char>(At(1) | 0x20);
    const int base =
        At(0) != '0' ? 10 : (mark == 'x' ? 16 : (mark == 'o' ? 8 : (mark == 'b' ? 2 : 10)));
    const size_t prefix = base == 10 ? 0 : 2;
    size_t count = prefix + CountDigits(prefix, base);
    bool is_float = false;
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    if (base == 10 && !after_dot) {
      if (At(count) == '.' && IsDecimal(At(count + 1))) {
        count += 1 + CountDigits(count + 1, 10);
        is_float = true;
      }
      const size_t sign = At(count + 1) == '+' || At(count + 1) == '-' ? 1 : 0;
      if ((At(count) | 0x20) == 'e' && IsDecimal(At(count + 1 + sign))) {
        count += 1 + sign;
        count += CountDigits(count, 10);
        is_float = true;
      }
    }
    std::string digits(Rest().substr(prefix, count - prefix));
    std::erase(digits, '_');
    Token& token = Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
    const char* end = digits.data() + digits.size();
    const auto result = is_float ? std::from_chars(digits.data(), end, token.number)
                                 : std::from_chars(digits.data(), end, token.integer, base);
    if (result.ec != std::errc() || result.ptr != end) FailAt(line_, "the number is out of range");
    Advance(count);
  }

  void ReadString(char quote) {
    const size_t opened = line_;
    Token& token = Push(TokenKind::kString);
    Advance(1);
    std::string text;
    while (At(0) != quote || position_ >= source_.size()) {
      if (position_ >= source_.size()) FailAt(opened, "the string has no end");
      if (At(0) == '\\') {
        ReadEscape(text);
      } else {
        text += At(0);
        Advance(1);
      }
    }
    Advance(1);
    token.text = std::move(text);
  }

  void ReadEscape(std::string& out) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    if (position_ + 1 >= source_.size()) FailAt(line_, "the string has no end");
    const char c = At(1);
    const size_t known = kNames.find(c);
    if (known != std::string_view::npos) {
      out += kValues[known];
      return Advance(2);
    }
    if (c == '\n') return Advance(2);
    if (c >= '0' && c <= '7') return ReadOctal(out);
    const size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    if (digits == 0) {  // Python keeps an escape that it does not know
      out += '\\';
      return Advance(1);
    }
    uint32_t code = 0;
    const std::string_view hex = Rest().substr(2, digits);
    const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool read =
        result.ec == std::errc() && hex.size() == digits && result.ptr == hex.data() + digits;
    if (!read || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      FailAt(line_, fmt::format("'\\{}' names no character", c));
    }
    AppendUtf8(code, out);
    Advance(2 + digits);
  }

  void ReadOctal(std::string& out) {
    char32_t code = 0;
    size_t count = 0;
    for (; count < 3 && At(1 + count) >= '0' && At(1 + count) <= '7'; ++count) {
      code = code * 8 + static_cast<char32_t>(At(1 + count) - '0');
    }
    AppendUtf8(code, out);
    Advance(1 + count);
  }

  const std::string source_;
  size_t position_ = 0;
  size_t line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  if (!IsValidUtf8(source)) {
    throw Error(ErrorCode::kInvalidInput, "the chat template is not UTF-8");
  }
  return Lexer(NormalizeLines(source)).Run();
}

}  // namespace kvant::jinja
