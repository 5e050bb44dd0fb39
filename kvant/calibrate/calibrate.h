// Running a model over text to find scales.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kvant/calibrate/kv_statistics.h"
#include "kvant/calibrate/scale_file.h"
#include "kvant/engine/engine.h"

namespace kvant {

struct CalibrationOptions {
  Codec codec = Codec::kFp8E4m3;
  Granularity granularity = Granularity::kTensor;
  double percentile = 100;
  std::string text_digest;  // for the provenance: of the text that the sequences are from
};

// Runs every sequence of token ids under a 16-bit plan and derives scales. progress: tokens done
// of tokens in all. Throws Error{kInvalidInput} for no tokens.
CalibratedScales Calibrate(Engine* engine, const std::vector<std::vector<TokenId>>& sequences,
                           const CalibrationOptions& options,
                           const std::function<void(uint64_t, uint64_t)>& progress);

// The statistics alone.
KvStatistics ObserveSequences(Engine* engine, const std::vector<std::vector<TokenId>>& sequences,
                              const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace kvant
