#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// Bytes per token by group, and what the memory budget is spent on.
void WriteMemorySection(const Json& report, HtmlWriter* page);

}  // namespace kvant
