#include "kvant/experiment/experiment_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kvant/core/error.h"

namespace kvant {

std::string_view GroupRoleName(GroupRole role) {
  switch (role) {
    case GroupRole::kBaseline:
      return "baseline";
    case GroupRole::kCandidate:
      return "candidate";
    case GroupRole::kGroup:
      return "group";
    case GroupRole::kNegativeControl:
      return "negative_control";
    case GroupRole::kFloor:
      return "floor";
  }
  return "group";
}

ExperimentSizes PresetSizes(const std::string& preset) {
  ExperimentSizes sizes;
  if (preset == "quick") return sizes;
  if (preset == "standard") {
    sizes.buckets = {512, 2048, 8192};
    sizes.documents = 8;
    sizes.haystacks = 20;
    sizes.free_runs = 16;
    sizes.free_run_tokens = 128;
    sizes.decode_check_tokens = 128;
    sizes.calibration_sequences = 8;
    return sizes;
  }
  if (preset == "full") {
    sizes.buckets = {512, 2048, 8192, 32768};
    sizes.documents = 20;
    sizes.haystacks = 70;
    sizes.free_runs = 64;
    sizes.free_run_tokens = 512;
    sizes.decode_check_tokens = 256;
    sizes.calibration_sequences = 32;
    return sizes;
  }
  throw Error(ErrorCode::kUsage, fmt::format("there is no preset '{}'", preset),
              "presets: quick, standard, full");
}

namespace {

struct TaskField {
  const char* name;
  bool ExperimentTasks::*wanted;
};
constexpr TaskField kTasks[] = {{"divergence", &ExperimentTasks::divergence},
                                {"needles", &ExperimentTasks::needles},
                                {"free_run", &ExperimentTasks::free_run},
                                {"speed", &ExperimentTasks::speed}};

}  // namespace

ExperimentTasks ParseTasks(std::string_view text) {
  ExperimentTasks tasks = {false, false, false, false};
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view name = text.substr(start, end - start);
    const auto* field = std::find_if(std::begin(kTasks), std::end(kTasks),
                                     [&](const TaskField& task) { return name == task.name; });
    if (field == std::end(kTasks)) {
      throw Error(ErrorCode::kUsage, fmt::format("there is no task '{}'", name),
                  "tasks: divergence, needles, free_run, speed");
    }
    tasks.*field->wanted = true;
    start = end + 1;
  }
  return tasks;
}

std::vector<std::string> TaskNames(const ExperimentTasks& tasks) {
  std::vector<std::string> names;
  for (const TaskField& task : kTasks) {
    if (tasks.*task.wanted) names.emplace_back(task.name);
  }
  return names;
}

}  // namespace kvant
