// Whether a stored report.json is what docs/report-schema.md says.
#pragma once

#include <string_view>

#include "kvant/core/json.h"

namespace kvant {

// Checks required fields, types, known words (roles, verdicts), finite numbers, and that every row
// names a group of the report. Fields that the schema does not know are allowed. Throws
// Error{kInvalidInput} naming the first field that breaks a rule, as in
// "report: groups[3].k.saturated is not a count".
void CheckReportJson(const Json& report);

// Parses and checks. Throws Error{kInvalidInput} naming `source`.
Json ParseReport(std::string_view text, std::string_view source);

}  // namespace kvant
