#include "kvant/report/html_table.h"

namespace kvant {

namespace {

void WriteCell(const TableCell& cell, bool heading, HtmlWriter* page) {
  HtmlAttributes attributes;
  if (heading) attributes.push_back({"scope", "row"});
  if (!cell.css_class.empty()) attributes.push_back({"class", cell.css_class});
  page->Open(heading ? "th" : "td", attributes);
  page->Text(cell.text);
  if (!cell.note.empty()) page->Element("small", cell.note);
  page->Close();
}

void WriteHead(const Table& table, HtmlWriter* page) {
  page->Open("thead");
  page->Open("tr");
  for (const std::string& column : table.columns) {
    page->Element("th", column, {{"scope", "col"}});
  }
  page->Close();
  page->Close();
}

}  // namespace

void WriteTable(const Table& table, HtmlWriter* page) {
  if (table.rows.empty()) return;
  // Focusable, so that a keyboard can scroll it.
  page->Open(
      "div",
      {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", table.caption}});
  page->Open("table", {{"class", table.css_class}});
  page->Element("caption", table.caption);
  WriteHead(table, page);
  page->Open("tbody");
  for (const auto& row : table.rows) {
    page->Open("tr");
    for (size_t i = 0; i < row.size(); ++i) WriteCell(row[i], i == 0, page);
    page->Close();
  }
  page->Close();
  page->Close();
  page->Close();
}

void WriteFoldedTable(const std::string& summary, const Table& table, HtmlWriter* page) {
  if (table.rows.empty()) return;
  page->Open("details");
  page->Element("summary", summary);
  WriteTable(table, page);
  page->Close();
}

}  // namespace kvant
