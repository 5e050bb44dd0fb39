#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// Free-running greedy generation beside the baseline.
void WriteGenerationSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
