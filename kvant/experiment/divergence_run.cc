#include "kvant/experiment/divergence_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "kvant/core/error.h"

namespace kvant {

namespace {

// Positions whose logits are held at once, for two models: bounded by memory, whatever the
// vocabulary.
constexpr uint64_t kLogitBytes = 48ULL << 20;

size_t ChunkTokens(const Engine& engine) {
  const uint64_t rows = kLogitBytes / (engine.model().config.vocabulary * sizeof(float));
  return std::clamp<size_t>(rows / kBlockTokens * kBlockTokens, kBlockTokens,
                            engine.options().prefill_chunk);
}

Json CountsJson(const std::vector<LayerCounts>& counts) {
  const auto list = [&](auto stream) {
    Json layers = Json::array();
    for (const LayerCounts& layer : counts) {
      const QuantizeCounts& c = stream(layer);
      layers.push_back({c.values, c.saturated, c.clipped, c.non_finite});
    }
    return layers;
  };
  return {{"k", list([](const LayerCounts& c) -> const QuantizeCounts& { return c.k; })},
          {"v", list([](const LayerCounts& c) -> const QuantizeCounts& { return c.v; })}};
}

QuantizeCounts Difference(const QuantizeCounts& after, const QuantizeCounts& before) {
  QuantizeCounts d;
  d.values = after.values - before.values;
  d.saturated = after.saturated - before.saturated;
  d.clipped = after.clipped - before.clipped;
  d.non_finite = after.non_finite - before.non_finite;
  return d;
}

// A group's sequence and what it has measured so far.
struct Runner {
  Runner(const RunContext& context, const RunGroup& its_group, uint64_t bucket)
      : group(&its_group),
        sequence(context.engine.StartScoring(its_group.plan, bucket)),
        counts(context.engine.plan(its_group.plan).counts.size()) {}

  // The plan's counts are taken around each step: another group may have the same plan.
  void Advance(const RunContext& context, std::span<const TokenId> tokens,
               std::span<float> logits) {
    const std::vector<LayerCounts>& now = context.engine.plan(group->plan).counts;
    const std::vector<LayerCounts> before = now;
    sequence->Advance(tokens, Pass::kPrefill, logits);
    for (size_t i = 0; i < counts.size(); ++i) {
      AddCounts({Difference(now[i].k, before[i].k), Difference(now[i].v, before[i].v)}, &counts[i]);
    }
  }

  const RunGroup* group;
  std::unique_ptr<ScoringSequence> sequence;
  std::vector<LayerCounts> counts;
  std::vector<PositionDivergence> positions;
};

std::string DocumentKey(const std::string& group, uint64_t bucket, uint64_t document) {
  return fmt::format("divergence/{}/{}/{}", group, bucket, document);
}

void DivergeChunk(std::span<const TokenId> window, size_t first, size_t count, size_t vocabulary,
                  const std::vector<float>& baseline, const std::vector<float>& candidate,
                  std::vector<PositionDivergence>* out) {
  for (size_t i = 0; i < count && first + i + 1 < window.size(); ++i) {
    out->push_back(Diverge(std::span(baseline).subspan(i * vocabulary, vocabulary),
                           std::span(candidate).subspan(i * vocabulary, vocabulary),
                           window[first + i + 1]));
  }
}

// The baseline has no divergence samples to carry its bytes and counts.
void StoreHeld(const RunContext& context, uint64_t bucket, uint64_t document,
               const Runner& baseline) {
  StoredSample sample;
  sample.group = baseline.group->group.name;
  sample.key = fmt::format("held/{}/{}/{}", sample.group, bucket, document);
  sample.kind = "held";
  sample.bucket = bucket;
  sample.payload = {{"tokens", baseline.sequence->tokens()},
                    {"held_bytes", baseline.sequence->held_bytes()},
                    {"counts", CountsJson(baseline.counts)}};
  context.Put(std::move(sample));
}

void RunDocument(const RunContext& context, uint64_t bucket, uint64_t document,
                 const std::vector<TokenId>& window) {
  std::vector<Runner> runners;
  for (const RunGroup& group : context.groups) {
    if (&group == &context.baseline()) continue;
    if (context.Has(DocumentKey(group.group.name, bucket, document))) continue;
    runners.emplace_back(context, group, bucket);
  }
  if (runners.empty()) {
    context.Worked("divergence", {.scored = bucket * context.groups.size()});
    return;
  }
  Runner baseline(context, context.baseline(), bucket);
  const size_t vocabulary = context.engine.model().config.vocabulary;
  const size_t chunk = ChunkTokens(context.engine);
  std::vector<float> expected(chunk * vocabulary);
  std::vector<float> got(chunk * vocabulary);
  for (size_t first = 0; first < window.size(); first += chunk) {
    context.CheckStop();
    const size_t count = std::min(chunk, window.size() - first);
    const auto tokens = std::span(window).subspan(first, count);
    baseline.Advance(context, tokens, expected);
    for (Runner& runner : runners) {
      runner.Advance(context, tokens, got);
      DivergeChunk(window, first, count, vocabulary, expected, got, &runner.positions);
    }
    context.Worked(fmt::format("divergence at {}", bucket),
                   {.scored = count * context.groups.size()});
  }
  StoreHeld(context, bucket, document, baseline);
  for (Runner& runner : runners) {
    StoredSample sample;
    sample.key = DocumentKey(runner.group->group.name, bucket, document);
    sample.kind = "divergence";
    sample.group = runner.group->group.name;
    sample.bucket = bucket;
    sample.payload = {{"document", document},
                      {"first_position", 0},
                      {"tokens", window.size()},
                      {"held_bytes", runner.sequence->held_bytes()},
                      {"counts", CountsJson(runner.counts)}};
    sample.values = PackPositions(runner.positions);
    context.Put(std::move(sample));
  }
}

uint64_t CheckedTokens(const ExperimentConfig& config, uint64_t bucket) {
  return std::min<uint64_t>(config.sizes.decode_check_tokens, bucket - 1);
}

Work DecodeCheckWork(const ExperimentConfig& config, uint64_t bucket) {
  // A token alone in prefill decodes a panel of weights for one row, and takes as long as about
  // three in decoding.
  const uint64_t checked = CheckedTokens(config, bucket);
  return {.prefilled = bucket - checked, .decoded = 4 * checked};
}

bool ChecksDecoding(const ExperimentGroup& group) {
  return group.role != GroupRole::kNegativeControl;
}

// The same plan by both passes over the same tokens: what decoding's rounding costs.
void CheckDecoding(const RunContext& context, const RunGroup& group, uint64_t bucket,
                   const std::vector<TokenId>& window) {
  const std::string key = fmt::format("decode_check/{}/{}", group.group.name, bucket);
  const uint64_t checked = CheckedTokens(context.config, bucket);
  if (!context.Has(key) && checked > 0) {
    context.CheckStop();
    const size_t vocabulary = context.engine.model().config.vocabulary;
    const auto history = std::span(window).first(window.size() - checked);
    const auto tail = std::span(window).last(checked);
    const auto prefill = context.engine.StartScoring(group.plan, bucket);
    prefill->Skip(history, Pass::kPrefill);
    const auto decode = prefill->Fork();
    std::vector<PositionDivergence> positions;
    std::vector<float> expected(vocabulary);
    std::vector<float> got(vocabulary);
    for (size_t i = 0; i + 1 < tail.size(); ++i) {
      prefill->Advance(tail.subspan(i, 1), Pass::kPrefill, expected);
      decode->Advance(tail.subspan(i, 1), Pass::kDecode, got);
      positions.push_back(Diverge(expected, got, tail[i + 1]));
    }
    StoredSample sample;
    sample.key = key;
    sample.kind = "decode_check";
    sample.group = group.group.name;
    sample.bucket = bucket;
    sample.payload = {{"tokens", checked}};
    sample.values = PackPositions(positions);
    context.Put(std::move(sample));
  }
  context.Worked("decode check", DecodeCheckWork(context.config, bucket));
}

}  // namespace

void RunDivergence(const RunContext& context) {
  const ExperimentSizes& sizes = context.config.sizes;
  for (const uint64_t bucket : sizes.buckets) {
    const auto windows = context.text.EvaluationWindows(sizes.documents, bucket);
    for (uint64_t document = 0; document < windows.size(); ++document) {
      RunDocument(context, bucket, document, windows[document]);
    }
    for (const RunGroup& group : context.groups) {
      if (ChecksDecoding(group.group)) CheckDecoding(context, group, bucket, windows.front());
    }
  }
}

void RunLayerSensitivity(const RunContext& context, const std::string& name) {
  const auto it = std::find_if(context.groups.begin(), context.groups.end(),
                               [&](const RunGroup& group) { return group.group.name == name; });
  if (it == context.groups.end()) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no group '{}'", name),
                "name one of the groups in --layer-sensitivity");
  }
  const uint64_t bucket = context.config.sizes.buckets.front();
  const std::vector<TokenId> window = context.text.EvaluationWindows(1, bucket).front();
  const size_t vocabulary = context.engine.model().config.vocabulary;
  const size_t chunk = ChunkTokens(context.engine);
  const KvPlan baseline = context.engine.plan(context.baseline().plan).layout.plan;
  const KvPlan full = context.engine.plan(it->plan).layout.plan;
  for (uint32_t layer = 0; layer < full.layers.size(); ++layer) {
    const std::string key = fmt::format("layer_sensitivity/{}/{}", name, layer);
    if (context.Has(key)) continue;
    KvPlan plan = baseline;
    plan.name = fmt::format("{} on layer {} only", name, layer);
    plan.layers[layer] = full.layers[layer];
    plan.scales = full.scales;
    const PlanId id = context.engine.AddPlan(plan);
    const auto expected_sequence = context.engine.StartScoring(context.baseline().plan, bucket);
    const auto sequence = context.engine.StartScoring(id, bucket);
    std::vector<float> expected(chunk * vocabulary);
    std::vector<float> got(chunk * vocabulary);
    DocumentDivergence document;
    for (size_t first = 0; first < window.size(); first += chunk) {
      context.CheckStop();
      const size_t count = std::min(chunk, window.size() - first);
      const auto tokens = std::span(window).subspan(first, count);
      expected_sequence->Advance(tokens, Pass::kPrefill, expected);
      sequence->Advance(tokens, Pass::kPrefill, got);
      DivergeChunk(window, first, count, vocabulary, expected, got, &document.positions);
    }
    StoredSample sample;
    sample.key = key;
    sample.kind = "layer_sensitivity";
    sample.group = name;
    sample.bucket = bucket;
    sample.payload = {{"layer", layer}, {"mean_kld", Summarise({document}, 0, bucket, 1).mean_kld}};
    context.Put(std::move(sample));
    context.Worked("layer sensitivity", {.scored = 2 * bucket});
  }
}

Work DivergenceWork(const ExperimentConfig& config) {
  Work work;
  for (const uint64_t bucket : config.sizes.buckets) {
    work.scored += bucket * config.groups.size() * config.sizes.documents;
    for (const ExperimentGroup& group : config.groups) {
      if (ChecksDecoding(group)) work += DecodeCheckWork(config, bucket);
    }
  }
  return work;
}

Work LayerSensitivityWork(const ExperimentConfig& config, uint32_t num_layers) {
  return {.scored = 2 * config.sizes.buckets.front() * num_layers};
}

std::vector<uint8_t> PackPositions(const std::vector<PositionDivergence>& positions) {
  std::vector<uint8_t> bytes;
  bytes.reserve(positions.size() * 16);
  for (const PositionDivergence& p : positions) {
    const std::array<float, 4> row = {
        p.kld, p.log_p_baseline, p.log_p_candidate,
        static_cast<float>((p.same_top1 ? 1 : 0) + (p.non_finite ? 2 : 0))};
    const auto* raw = reinterpret_cast<const uint8_t*>(row.data());
    bytes.insert(bytes.end(), raw, raw + sizeof(row));
  }
  return bytes;
}

std::vector<PositionDivergence> UnpackPositions(const std::vector<uint8_t>& bytes) {
  constexpr size_t kRow = 4 * sizeof(float);
  if (bytes.size() % kRow != 0) {
    throw Error(ErrorCode::kInvalidInput, "a stored divergence sample is damaged");
  }
  std::vector<PositionDivergence> positions(bytes.size() / kRow);
  for (size_t i = 0; i < positions.size(); ++i) {
    std::array<float, 4> row{};
    std::memcpy(row.data(), bytes.data() + i * kRow, kRow);
    const auto mask = static_cast<int>(row[3]);
    positions[i] = {row[0], row[1], row[2], (mask & 1) != 0, (mask & 2) != 0};
  }
  return positions;
}

}  // namespace kvant
