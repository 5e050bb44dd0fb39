#include "kvant/experiment/experiment_config.h"

#include <fmt/format.h>

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
    sizes.haystacks = 60;
    sizes.free_runs = 64;
    sizes.free_run_tokens = 512;
    sizes.decode_check_tokens = 256;
    sizes.calibration_sequences = 32;
    return sizes;
  }
  throw Error(ErrorCode::kUsage, fmt::format("there is no preset '{}'", preset),
              "presets: quick, standard, full");
}

}  // namespace kvant
