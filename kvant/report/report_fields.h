// Reading a report that may lack anything: an absent, null or wrongly typed field is "not
// measured", never an exception.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvant/core/json.h"

namespace kvant {

// The field, or JSON null.
const Json& Field(const Json& object, const char* key);
// A finite number.
std::optional<double> NumberAt(const Json& object, const char* key);
std::string TextAt(const Json& object, const char* key, const char* otherwise = "");
// Absent unless it is a boolean.
std::optional<bool> FlagAt(const Json& object, const char* key);
// The elements of an array; none if it is not one.
const std::vector<Json>& RowsAt(const Json& object, const char* key);
// Those elements of an array that are text.
std::vector<std::string> TextsAt(const Json& object, const char* key);

// Baseline, candidate, other groups, negative control, noise floor.
std::vector<const Json*> GroupsInOrder(const Json& report);
std::string BaselineName(const Json& report);
// The role of a group, or "".
std::string RoleOf(const Json& report, const std::string& group);
// The first row of report[key] for the group and, unless absent, the bucket; null if there is none.
const Json& RowFor(const Json& report, const char* key, const std::string& group,
                   std::optional<double> bucket = std::nullopt);
// The distinct numbers under `field` in report[key], ascending.
std::vector<double> DistinctNumbers(const Json& report, const char* key, const char* field);
// CSS class of a group's line, bar and swatch: the same in every figure.
std::string SeriesClass(const Json& report, const std::string& group);

}  // namespace kvant
