#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// TPOT by context depth and TTFT by prompt length.
void WriteSpeedSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
