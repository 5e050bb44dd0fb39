#include "kvant/report/verdict_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvant/report/report_fields.h"

namespace kvant {

namespace {

struct VerdictLook {
  const char* word;
  const char* sign;  // so that colour is never the only difference
  const char* css_class;
};

VerdictLook LookOf(const std::string& verdict) {
  if (verdict == "ship") return {"ship", "✓", "ship"};
  if (verdict == "canary") return {"canary", "◐", "canary"};
  if (verdict == "do not ship") return {"do not ship", "✕", "stop"};
  return {"inconclusive", "?", "unsure"};
}

void WriteList(const std::string& heading, const std::vector<std::string>& lines,
               HtmlWriter* page) {
  if (lines.empty()) return;
  page->Element("p", heading);
  page->Open("ul");
  for (const std::string& line : lines) page->Element("li", line);
  page->Close();
}

std::string PlanOf(const Json& report, const std::string& group) {
  for (const Json& row : RowsAt(report, "groups")) {
    if (TextAt(row, "name") == group) return TextAt(row, "plan");
  }
  return "";
}

void WriteVerdict(const Json& report, const Json& row, bool candidate, HtmlWriter* page) {
  const std::string group = TextAt(row, "group", "unnamed");
  const VerdictLook look = LookOf(TextAt(row, "verdict"));
  page->Open(
      "article",
      {{"class", fmt::format("verdict {}{}", look.css_class, candidate ? " candidate" : "")}});
  page->Element("h3", fmt::format("{} {}: {}", look.sign, group, look.word));
  if (candidate) page->Element("p", "The candidate", {{"class", "soft"}});
  const std::string plan = PlanOf(report, group);
  if (!plan.empty() && plan != group) page->Element("p", "Plan: " + plan, {{"class", "soft"}});
  const std::string cell = TextAt(row, "deciding_cell");
  if (!cell.empty()) page->Element("p", "Decided by: " + cell);
  WriteList("Because", TextsAt(row, "reasons"), page);
  WriteList("What would decide", TextsAt(row, "would_decide"), page);
  page->Close();
}

void WriteNotices(const Json& report, HtmlWriter* page) {
  if (FlagAt(report, "complete") == false) {
    page->Element("p", "This run is not complete: the page shows what was measured so far.",
                  {{"class", "notice"}});
  }
  const Json& negative = Field(Field(report, "controls"), "negative");
  if (FlagAt(negative, "failed") == false) {
    page->Element("p",
                  "The negative control was not seen to be broken, so this run could not have "
                  "seen damage: no verdict here is evidence of quality.",
                  {{"class", "notice"}});
  }
}

}  // namespace

void WriteVerdictSection(const Json& report, HtmlWriter* page) {
  page->Open("section");
  page->Element("h2", "Verdict");
  WriteNotices(report, page);
  std::vector<const Json*> rows;
  for (const Json& row : RowsAt(report, "verdicts")) rows.push_back(&row);
  const std::string candidate = TextAt(Field(report, "config"), "candidate");
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const Json* row) { return TextAt(*row, "group") == candidate; });
  if (rows.empty()) page->Element("p", "Not measured: the run holds no group to judge.");
  page->Open("div", {{"class", "verdicts"}});
  for (const Json* row : rows) {
    WriteVerdict(report, *row, TextAt(*row, "group") == candidate, page);
  }
  page->Close();
  page->Close();
}

}  // namespace kvant
