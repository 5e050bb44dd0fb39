#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// Retrieval by length and depth, as difference from the baseline.
void WriteNeedleSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
