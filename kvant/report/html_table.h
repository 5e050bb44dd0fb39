// A data table: caption, column headings, row headings, scrolling inside its own box.
#pragma once

#include <string>
#include <vector>

#include "kvant/report/html_writer.h"

namespace kvant {

struct TableCell {
  std::string text;
  std::string note;       // second line, small; may be empty
  std::string css_class;  // of the cell; may be empty
};

struct Table {
  std::string caption;  // says what the numbers were measured on
  std::vector<std::string> columns;
  // The first cell of a row is its heading. Rows shorter than `columns` end early.
  std::vector<std::vector<TableCell>> rows;
  std::string css_class;
};

// Nothing if there are no rows.
void WriteTable(const Table& table, HtmlWriter* page);
// The table behind a line that opens it.
void WriteFoldedTable(const std::string& summary, const Table& table, HtmlWriter* page);

}  // namespace kvant
