// Whatever the bytes are, a report is read or refused with an Error; what was read renders as a
// page whose every tag is ours.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "kvant/core/error.h"
#include "kvant/report/report_html.h"
#include "kvant/report/report_json_check.h"

namespace kvant {
namespace {

// The names of all tags, "/table" for an end tag.
std::set<std::string> TagNames(std::string_view html) {
  std::set<std::string> names;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    names.emplace(html.substr(at + 1, html.find_first_of(" >", at) - at - 1));
  }
  return names;
}

void CheckPage(const std::string& html) {
  static const std::set<std::string> ours = {
      "!DOCTYPE", "article", "body",       "caption",  "circle", "code",  "desc",
      "details",  "div",     "figcaption", "figure",   "g",      "h1",    "h2",
      "h3",       "head",    "header",     "html",     "li",     "line",  "main",
      "meta",     "p",       "polygon",    "polyline", "pre",    "rect",  "section",
      "small",    "strong",  "style",      "summary",  "svg",    "table", "tbody",
      "td",       "text",    "th",         "thead",    "title",  "tr",    "ul"};
  for (const std::string& name : TagNames(html)) {
    KVANT_CHECK(ours.contains(name.starts_with("/") ? name.substr(1) : name));
  }
}

}  // namespace
}  // namespace kvant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    // The page must also stand what the check would refuse.
    kvant::CheckPage(kvant::RenderReportHtml(kvant::ParseJson(text, "input")));
    kvant::CheckPage(kvant::RenderReportHtml(kvant::ParseReport(text, "input")));
  } catch (const kvant::Error&) {
  }
  return 0;
}
