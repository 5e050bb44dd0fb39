// The report as a page to read and to send on.
#pragma once

#include <string>

#include "kvant/core/json.h"

namespace kvant {

// One self-contained HTML document, without scripts and without a reference to anything outside
// it. `report` is a document of docs/report-schema.md; its texts are escaped, and what is absent,
// null or wrongly typed is shown as not measured. Never throws for a document's content.
std::string RenderReportHtml(const Json& report);

}  // namespace kvant
