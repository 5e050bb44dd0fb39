// A stored run as one JSON document: everything that the report shows, recomputed from the
// samples.
#pragma once

#include <cstdint>

#include "kvant/core/json.h"
#include "kvant/evaluate/verdict.h"
#include "kvant/store/store.h"

namespace kvant {

// docs/report-schema.md. Throws Error{kInvalidInput} for damaged samples.
Json BuildReport(const Store& store, int64_t run, const VerdictRules& rules);

// The verdict of one group, as BuildReport puts it into "verdicts"; kInconclusive if the group is
// not in the report.
VerdictKind VerdictOf(const Json& report, const std::string& group);

}  // namespace kvant
