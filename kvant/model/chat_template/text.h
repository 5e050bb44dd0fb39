// Python's str operations, which count code points, on UTF-8 text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvant::jinja {

bool IsValidUtf8(std::string_view text);
// Bytes that are not UTF-8 become U+FFFD.
std::u32string Decode(std::string_view text);
std::string Encode(std::u32string_view code_points);
void AppendUtf8(char32_t code_point, std::string& out);
size_t CodePointCount(std::string_view text);

// str.isspace() of one code point.
bool IsSpace(char32_t code_point);

enum class Side { kLeft, kRight, kBoth };

// `characters` is a set of code points; white space where it is null.
std::string_view Strip(std::string_view text, const std::string* characters, Side side);

// Null separator: runs of white space, none at the ends. max_splits < 0: no limit.
std::vector<std::string> Split(std::string_view text, const std::string* separator,
                               int64_t max_splits, bool from_right);
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends = false);
// count < 0: all. `limit` bounds the result in bytes; a longer one comes back cut, as limit + 1
// bytes or more.
std::string Replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count, size_t limit);
// The first place of `part` in `text` at or after `from`, the last one, or npos; in time linear in
// the text however much of it resembles the part.
size_t Find(std::string_view text, std::string_view part, size_t from = 0);
size_t FindLast(std::string_view text, std::string_view part);
// How often `part` stands in `text` without overlap.
size_t CountOf(std::string_view text, std::string_view part);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// str.title() and str.capitalize().
std::string Title(std::string_view text);
std::string Capitalize(std::string_view text);
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);
bool IsAlphabetic(char32_t code_point);
bool IsDigit(char32_t code_point);

// With &, <, >, ' and " as HTML entities.
std::string EscapeHtml(std::string_view text);

// Python's repr() of a str, with its choice of quotes.
std::string QuotedText(std::string_view text);

}  // namespace kvant::jinja
