// Writes HTML and inline SVG. Every text and attribute value is escaped and every element closed
// by construction: there is no way to pass markup through.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvant {

// `text` for use between tags or inside a double-quoted attribute. Bytes that are not UTF-8,
// control characters other than tab and newline, and characters that reorder text (U+202A…202E,
// U+2066…2069) become U+FFFD.
std::string EscapeHtml(std::string_view text);

// At most `max_characters` code points of `text`, the last one "…" where something was cut.
std::string Shortened(std::string_view text, size_t max_characters);

struct HtmlAttribute {
  std::string_view name;  // ours, never input
  std::string value;
};
using HtmlAttributes = std::vector<HtmlAttribute>;

class HtmlWriter {
 public:
  // `tag` must outlive the element: a literal.
  void Open(std::string_view tag, const HtmlAttributes& attributes = {});
  // Ends the innermost open element.
  void Close();
  void Text(std::string_view text);
  // Open, Text, Close.
  void Element(std::string_view tag, std::string_view text, const HtmlAttributes& attributes = {});
  // An element without an end tag, such as <meta>.
  void Void(std::string_view tag, const HtmlAttributes& attributes = {});
  // A new id, "c1", "c2", …: for references between elements.
  std::string NewId();
  // The document, with its doctype. All elements must be closed.
  std::string Finish() &&;

 private:
  void Tag(std::string_view tag, const HtmlAttributes& attributes);

  std::string out_ = "<!DOCTYPE html>\n";
  std::vector<std::string_view> open_;
  size_t ids_ = 0;
};

}  // namespace kvant
