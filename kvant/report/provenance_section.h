#pragma once

#include "kvant/core/json.h"
#include "kvant/report/html_writer.h"

namespace kvant {

// Why to believe the page: calibration effect, controls, what was not measured, rules, environment,
// digests and the command that makes it again.
void WriteProvenanceSection(const Json& report, HtmlWriter* page);

}  // namespace kvant
