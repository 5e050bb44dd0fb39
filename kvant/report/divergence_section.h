#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// KLD by position, the distribution by bucket, and the layers that contribute most.
void WriteDivergenceSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
