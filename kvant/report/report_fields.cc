#include "kvant/report/report_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kvant {

namespace {

const Json& Null() {
  static const Json null;
  return null;
}

// Rows read from report[key] look at these groups in this order.
int RoleRank(const std::string& role) {
  static const std::vector<std::string> order = {"baseline", "candidate", "group",
                                                 "negative_control", "floor"};
  return static_cast<int>(std::find(order.begin(), order.end(), role) - order.begin());
}

}  // namespace

const Json& Field(const Json& object, const char* key) {
  if (!object.is_object()) return Null();
  const auto it = object.find(key);
  return it == object.end() ? Null() : *it;
}

std::optional<double> NumberAt(const Json& object, const char* key) {
  const Json& field = Field(object, key);
  if (!field.is_number()) return std::nullopt;
  const double value = field.get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string TextAt(const Json& object, const char* key, const char* otherwise) {
  const Json& field = Field(object, key);
  return field.is_string() ? field.get<std::string>() : otherwise;
}

std::optional<bool> FlagAt(const Json& object, const char* key) {
  const Json& field = Field(object, key);
  return field.is_boolean() ? std::optional(field.get<bool>()) : std::nullopt;
}

const std::vector<Json>& RowsAt(const Json& object, const char* key) {
  static const std::vector<Json> none;
  const Json& field = Field(object, key);
  return field.is_array() ? field.get_ref<const Json::array_t&>() : none;
}

std::vector<std::string> TextsAt(const Json& object, const char* key) {
  std::vector<std::string> texts;
  for (const Json& row : RowsAt(object, key)) {
    if (row.is_string()) texts.push_back(row.get<std::string>());
  }
  return texts;
}

std::vector<const Json*> GroupsInOrder(const Json& report) {
  std::vector<const Json*> groups;
  for (const Json& group : RowsAt(report, "groups")) groups.push_back(&group);
  std::stable_sort(groups.begin(), groups.end(), [](const Json* a, const Json* b) {
    return RoleRank(TextAt(*a, "role")) < RoleRank(TextAt(*b, "role"));
  });
  return groups;
}

std::string BaselineName(const Json& report) {
  return TextAt(Field(report, "config"), "baseline", "the baseline");
}

std::string RoleOf(const Json& report, const std::string& group) {
  for (const Json& row : RowsAt(report, "groups")) {
    if (TextAt(row, "name") == group) return TextAt(row, "role");
  }
  return "";
}

const Json& RowFor(const Json& report, const char* key, const std::string& group,
                   std::optional<double> bucket) {
  for (const Json& row : RowsAt(report, key)) {
    if (TextAt(row, "group") != group) continue;
    if (!bucket || NumberAt(row, "bucket") == bucket) return row;
  }
  return Null();
}

std::vector<double> DistinctNumbers(const Json& report, const char* key, const char* field) {
  std::set<double> numbers;
  for (const Json& row : RowsAt(report, key)) {
    if (const auto number = NumberAt(row, field)) numbers.insert(*number);
  }
  return {numbers.begin(), numbers.end()};
}

std::string SeriesClass(const Json& report, const std::string& group) {
  constexpr size_t kColours = 7;
  const std::string role = RoleOf(report, group);
  if (role == "baseline" || role == "floor") return "series-" + role;
  size_t index = 0;
  for (const Json* row : GroupsInOrder(report)) {
    const std::string name = TextAt(*row, "name");
    if (name == group) break;
    const std::string other = TextAt(*row, "role");
    if (other != "baseline" && other != "floor") ++index;
  }
  return fmt::format("series-{}", index % kColours);
}

}  // namespace kvant
