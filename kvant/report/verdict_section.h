#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// The verdict boxes, the candidate first, with what decided and what would decide.
void WriteVerdictSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
