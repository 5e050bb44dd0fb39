#include "kvant/report/html_writer.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "kvant/core/error.h"

namespace kvant {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
  bool valid = false;
};

// The code point that starts at text[at]; an invalid one is one byte long.
CodePoint Decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + bytes > text.size()) return {};
  uint32_t value = first & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  const bool shortest = bytes == 2 || (bytes == 3 && value >= 0x800) || value >= 0x10000;
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (!shortest || surrogate || value > 0x10FFFF) return {};
  return {value, bytes, true};
}

bool Shown(const CodePoint& c) {
  if (!c.valid) return false;
  if (c.value < 0x20) return c.value == '\t' || c.value == '\n';
  const bool control = c.value >= 0x7F && c.value < 0xA0;
  const bool reorders =
      (c.value >= 0x202A && c.value <= 0x202E) || (c.value >= 0x2066 && c.value <= 0x2069);
  return !control && !reorders;
}

std::string_view Reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = Decode(text, at);
    const std::string_view bytes = text.substr(at, c.bytes);
    const std::string_view reference = Reference(text[at]);
    out += !Shown(c) ? kReplacement : reference.empty() ? bytes : reference;
    at += c.bytes;
  }
  return out;
}

std::string Shortened(std::string_view text, size_t max_characters) {
  size_t characters = 0;
  size_t cut = 0;  // where the text ends if it has to make room for "…"
  for (size_t at = 0; at < text.size(); ++characters) {
    if (characters + 1 == max_characters) cut = at;
    if (characters == max_characters) return std::string(text.substr(0, cut)) + "…";
    at += Decode(text, at).bytes;
  }
  return std::string(text);
}

void HtmlWriter::Tag(std::string_view tag, const HtmlAttributes& attributes) {
  out_ += '<';
  out_ += tag;
  for (const HtmlAttribute& attribute : attributes) {
    out_ += fmt::format(" {}=\"{}\"", attribute.name, EscapeHtml(attribute.value));
  }
  out_ += '>';
}

void HtmlWriter::Open(std::string_view tag, const HtmlAttributes& attributes) {
  Tag(tag, attributes);
  open_.push_back(tag);
}

void HtmlWriter::Close() {
  KVANT_CHECK(!open_.empty());
  out_ += fmt::format("</{}>\n", open_.back());
  open_.pop_back();
}

void HtmlWriter::Text(std::string_view text) { out_ += EscapeHtml(text); }

void HtmlWriter::Element(std::string_view tag, std::string_view text,
                         const HtmlAttributes& attributes) {
  Open(tag, attributes);
  Text(text);
  Close();
}

void HtmlWriter::Void(std::string_view tag, const HtmlAttributes& attributes) {
  Tag(tag, attributes);
}

std::string HtmlWriter::NewId() { return fmt::format("c{}", ++ids_); }

std::string HtmlWriter::Finish() && {
  KVANT_CHECK(open_.empty());
  return std::move(out_);
}

}  // namespace kvant
