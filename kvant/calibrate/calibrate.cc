#include "kvant/calibrate/calibrate.h"

#include <algorithm>

#include "kvant/core/error.h"

namespace kvant {

KvStatistics ObserveSequences(Engine* engine, const std::vector<std::vector<TokenId>>& sequences,
                              const std::function<void(uint64_t, uint64_t)>& progress) {
  KvStatistics statistics(engine->model().geometry);
  const PlanId plan = engine->AddPlan(MakeKvPlan("bf16", engine->model().geometry));
  uint64_t total = 0;
  for (const auto& sequence : sequences) total += sequence.size();
  uint64_t done = 0;
  engine->set_observer(&statistics);
  try {
    for (const auto& sequence : sequences) {
      if (sequence.empty()) continue;
      const auto scoring = engine->StartScoring(plan, sequence.size());
      constexpr size_t kStep = 512;
      for (size_t i = 0; i < sequence.size(); i += kStep) {
        const size_t count = std::min(kStep, sequence.size() - i);
        scoring->Skip(std::span(sequence).subspan(i, count), Pass::kPrefill);
        done += count;
        if (progress) progress(done, total);
      }
    }
  } catch (...) {
    engine->set_observer(nullptr);
    throw;
  }
  engine->set_observer(nullptr);
  return statistics;
}

CalibratedScales Calibrate(Engine* engine, const std::vector<std::vector<TokenId>>& sequences,
                           const CalibrationOptions& options,
                           const std::function<void(uint64_t, uint64_t)>& progress) {
  const KvStatistics statistics = ObserveSequences(engine, sequences, progress);
  CalibratedScales result;
  result.scales =
      ScalesFromStatistics(statistics, options.codec, options.granularity, options.percentile);
  ScaleProvenance& provenance = result.provenance;
  provenance.model_digest = Hex(engine->model().digest);
  provenance.model_name = engine->model().config.name;
  provenance.tokens = statistics.tokens();
  provenance.percentile = options.percentile;
  provenance.text_digest = options.text_digest;
  for (const auto& sequence : sequences) provenance.sequence_lengths.push_back(sequence.size());
  return result;
}

}  // namespace kvant
