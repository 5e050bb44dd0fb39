#include "kvant/model/chat_template/text.h"

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>

namespace kvant::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Reads one code point at `position` and moves past it. An invalid sequence gives U+FFFD and moves
// past its longest valid beginning, at least one byte; `valid` is then false.
char32_t Next(std::string_view text, size_t& position, bool& valid) {
  const auto byte = [&](size_t index) { return static_cast<uint8_t>(text[index]); };
  const uint8_t first = byte(position++);
  valid = true;
  if (first < 0x80) return first;
  size_t more = 0;
  char32_t code = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    more = 1;
    code = first & 0x1FU;
  } else if (first >= 0xE0 && first <= 0xEF) {
    more = 2;
    code = first & 0x0FU;
    if (first == 0xE0) low = 0xA0;   // shorter forms exist
    if (first == 0xED) high = 0x9F;  // surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    more = 3;
    code = first & 0x07U;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;  // beyond U+10FFFF
  } else {
    valid = false;
    return kReplacement;
  }
  for (; more > 0; --more) {
    if (position >= text.size() || byte(position) < low || byte(position) > high) {
      valid = false;
      return kReplacement;
    }
    code = (code << 6) | (byte(position++) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return code;
}

char32_t Next(std::string_view text, size_t& position) {
  bool valid = false;
  return Next(text, position, valid);
}

// The start of the code point that ends just before `end`.
size_t Previous(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
  return start;
}

std::string ToUtf8(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString FromUtf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string TitleOf(char32_t code_point) {
  icu::UnicodeString one(static_cast<UChar32>(code_point));
  return ToUtf8(one.toTitle(nullptr, icu::Locale::getRoot(), 0));
}

bool IsPrintable(char32_t code_point) {
  if (code_point == ' ') return true;
  switch (u_charType(static_cast<UChar32>(code_point))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

bool IsCased(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_hasBinaryProperty(c, UCHAR_LOWERCASE) || u_hasBinaryProperty(c, UCHAR_UPPERCASE) ||
         u_charType(c) == U_TITLECASE_LETTER;
}

std::string Reversed(std::string_view text) { return std::string(text.rbegin(), text.rend()); }

// Splits the bytes in reverse, then turns all back.
std::vector<std::string> SplitFromRight(std::string_view text, std::string_view separator,
                                        int64_t max_splits) {
  const std::string backward = Reversed(separator);
  std::vector<std::string> parts = Split(Reversed(text), &backward, max_splits, false);
  std::reverse(parts.begin(), parts.end());
  for (std::string& part : parts) part = Reversed(part);
  return parts;
}

std::vector<std::string> SplitAtSpace(std::string_view text, int64_t max_splits) {
  std::vector<std::string> parts;
  std::string_view rest = Strip(text, nullptr, Side::kLeft);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(rest);
      break;
    }
    size_t end = 0;
    size_t after = 0;
    while (end < rest.size()) {
      after = end;
      if (IsSpace(Next(rest, after))) break;
      end = after;
    }
    parts.emplace_back(rest.substr(0, end));
    rest = Strip(rest.substr(end), nullptr, Side::kLeft);
  }
  return parts;
}

std::vector<std::string> SplitAtSpaceFromRight(std::string_view text, int64_t max_splits) {
  std::vector<std::string> parts;
  std::string_view rest = Strip(text, nullptr, Side::kRight);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.emplace_back(rest);
      break;
    }
    size_t start = rest.size();
    while (start > 0) {
      size_t position = Previous(rest, start);
      const size_t before = position;
      if (IsSpace(Next(rest, position))) break;
      start = before;
    }
    parts.emplace_back(rest.substr(start));
    rest = Strip(rest.substr(0, start), nullptr, Side::kRight);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  bool valid = true;
  for (size_t i = 0; i < text.size() && valid;) Next(text, i, valid);
  return valid;
}

std::u32string Decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) out.push_back(Next(text, i));
  return out;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string Encode(std::u32string_view code_points) {
  std::string out;
  out.reserve(code_points.size());
  for (const char32_t code_point : code_points) AppendUtf8(code_point, out);
  return out;
}

size_t CodePointCount(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) != 0x80U; }));
}

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view Strip(std::string_view text, const std::string* characters, Side side) {
  std::u32string set = characters == nullptr ? std::u32string() : Decode(*characters);
  std::sort(set.begin(), set.end());
  const auto goes = [&](char32_t c) {
    return characters == nullptr ? IsSpace(c) : std::binary_search(set.begin(), set.end(), c);
  };
  size_t start = 0;
  size_t end = text.size();
  while (side != Side::kRight && start < end) {
    size_t after = start;
    if (!goes(Next(text, after))) break;
    start = after;
  }
  while (side != Side::kLeft && end > start) {
    const size_t before = Previous(text, end);
    size_t position = before;
    if (!goes(Next(text, position))) break;
    end = before;
  }
  return text.substr(start, end - start);
}

std::vector<std::string> Split(std::string_view text, const std::string* separator,
                               int64_t max_splits, bool from_right) {
  if (separator == nullptr) {
    return from_right ? SplitAtSpaceFromRight(text, max_splits) : SplitAtSpace(text, max_splits);
  }
  if (from_right) return SplitFromRight(text, *separator, max_splits);
  std::vector<std::string> parts;
  std::string_view rest = text;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t found = Find(rest, *separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(rest.substr(0, found));
    rest = rest.substr(found + separator->size());
  }
  parts.emplace_back(rest);
  return parts;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = Next(text, i);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.emplace_back(text.substr(start, (keep_ends ? i : at) - start));
    start = i;
  }
  if (start < text.size()) lines.emplace_back(text.substr(start));
  return lines;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count, size_t limit) {
  std::string out;
  size_t position = 0;
  for (int64_t done = 0; (count < 0 || done < count) && out.size() <= limit; ++done) {
    // An empty `from` stands before every code point and at the end.
    const size_t found = from.empty() ? position : Find(text, from, position);
    if (found == std::string_view::npos) break;
    out.append(text.substr(position, found - position)).append(to);
    position = found + from.size();
    if (!from.empty()) continue;
    if (position >= text.size()) return out;
    size_t after = position;
    Next(text, after);
    out.append(text.substr(position, after - position));
    position = after;
  }
  out.append(text.substr(position));
  return out;
}

size_t Find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  // The C library's search is linear; std::string's compares the part anew at every place.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLast(std::string_view text, std::string_view part) {
  const size_t found = Find(Reversed(text), Reversed(part));
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

size_t CountOf(std::string_view text, std::string_view part) {
  if (part.empty()) return CodePointCount(text) + 1;
  size_t count = 0;
  for (size_t at = Find(text, part); at != std::string_view::npos;
       at = Find(text, part, at + part.size())) {
    ++count;
  }
  return count;
}

std::string Upper(std::string_view text) {
  return ToUtf8(FromUtf8(text).toUpper(icu::Locale::getRoot()));
}

std::string Lower(std::string_view text) {
  return ToUtf8(FromUtf8(text).toLower(icu::Locale::getRoot()));
}

std::string Title(std::string_view text) {
  std::string out;
  bool inside_word = false;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = Next(text, i);
    out += inside_word ? Lower(text.substr(at, i - at)) : TitleOf(c);
    inside_word = IsCased(c);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  size_t after = 0;
  const char32_t first = Next(text, after);
  return TitleOf(first) + Lower(text.substr(after));
}

bool IsUpper(std::string_view text) {
  bool cased = false;
  for (const char32_t c : Decode(text)) {
    if (!IsCased(c)) continue;
    if (!u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE)) return false;
    cased = true;
  }
  return cased;
}

bool IsLower(std::string_view text) {
  bool cased = false;
  for (const char32_t c : Decode(text)) {
    if (!IsCased(c)) continue;
    if (!u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE)) return false;
    cased = true;
  }
  return cased;
}

bool IsAlphabetic(char32_t code_point) { return u_isalpha(static_cast<UChar32>(code_point)) != 0; }

bool IsDigit(char32_t code_point) { return u_isdigit(static_cast<UChar32>(code_point)) != 0; }

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string QuotedText(std::string_view text) {
  const bool doubled =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const char32_t c = Next(text, i);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      AppendUtf8(c, out);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  out.push_back(quote);
  return out;
}

}  // namespace kvant::jinja
