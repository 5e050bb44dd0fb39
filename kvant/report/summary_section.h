#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// All groups side by side, one row each, at the longest bucket.
void WriteSummarySection(const Json& report, HtmlWriter* page);

}  // namespace kvant
