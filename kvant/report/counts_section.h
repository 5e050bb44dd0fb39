#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// Saturated, clipped and non-finite values, in total and by layer.
void WriteCountsSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
