// What an experiment runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/json.h"

namespace kvant {

enum class GroupRole { kBaseline, kCandidate, kGroup, kNegativeControl, kFloor };
std::string_view GroupRoleName(GroupRole role);

struct ExperimentGroup {
  std::string name;
  std::string plan;  // as MakeKvPlan reads it
  GroupRole role = GroupRole::kGroup;
};

// Sizes of a run. The defaults are the preset `quick`.
struct ExperimentSizes {
  std::vector<uint64_t> buckets = {512, 2048};
  uint64_t documents = 3;  // per bucket, for divergence
  uint64_t haystacks = 2;  // per bucket; five questions each
  uint64_t free_runs = 4;  // prompts
  uint64_t free_run_tokens = 48;
  // Per bucket and group, re-scored one by one; more than a block, so that decoding reads a block
  // that it sealed itself.
  uint64_t decode_check_tokens = 80;
  uint64_t calibration_sequences = 4;
  uint64_t calibration_length = 0;  // 0: the longest bucket
};

// What is measured.
struct ExperimentTasks {
  bool divergence = true;
  bool needles = true;
  bool free_run = true;
  bool speed = true;
};
// "divergence,needles". Throws Error{kUsage} for a name that is none and for none at all.
ExperimentTasks ParseTasks(std::string_view text);
std::vector<std::string> TaskNames(const ExperimentTasks& tasks);

struct ExperimentConfig {
  std::string preset = "quick";
  std::vector<ExperimentGroup> groups;  // the baseline first
  ExperimentSizes sizes;
  std::vector<std::string> texts;  // contents
  std::string scale_file;          // empty: static groups are calibrated in the run
  std::string layer_sensitivity;   // name of a group, or empty
  ExperimentTasks tasks;
  uint64_t seed = 1;
  std::filesystem::path out;
  std::string command;  // as the user typed it, for the report
};

// Throws Error{kUsage} for a preset that does not exist: quick, standard, full.
ExperimentSizes PresetSizes(const std::string& preset);

}  // namespace kvant
