#include "kvant/experiment/experiment.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "kvant/calibrate/calibrate.h"
#include "kvant/calibrate/scale_file.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/sha256.h"
#include "kvant/experiment/divergence_run.h"
#include "kvant/experiment/generation_run.h"
#include "kvant/experiment/run_context.h"
#include "kvant/kernel/isa.h"

namespace kvant {

namespace {

bool AnyOf(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Json EnvironmentJson(const Engine& engine) {
  utsname system{};
  ::uname(&system);
  return {{"cpu", CpuName()},
          {"cpus", std::thread::hardware_concurrency()},
          {"isa", IsaName(ActiveIsa())},
          {"threads", engine.options().num_threads},
          {"memory_budget_bytes", engine.options().memory_bytes},
          {"os", fmt::format("{} {}", system.sysname, system.release)},
          {"compiler", __VERSION__}};
}

std::string FileDigest(const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = 1ULL << 30;
  return Hex(Sha256Of(ReadWholeFile(path, kMaxBytes)));
}

Json ConfigJson(const ExperimentConfig& config, const Engine& engine, const TextSplit& text) {
  const ModelConfig& model = engine.model().config;
  const KvGeometry& geometry = engine.model().geometry;
  Json groups = Json::array();
  for (const ExperimentGroup& group : config.groups) {
    groups.push_back(
        {{"name", group.name}, {"plan", group.plan}, {"role", GroupRoleName(group.role)}});
  }
  const ExperimentSizes& s = config.sizes;
  return {{"preset", config.preset},
          {"seed", config.seed},
          {"groups", groups},
          {"buckets", s.buckets},
          {"documents", s.documents},
          {"haystacks", s.haystacks},
          {"free_runs", s.free_runs},
          {"free_run_tokens", s.free_run_tokens},
          {"decode_check_tokens", s.decode_check_tokens},
          {"calibration_sequences", s.calibration_sequences},
          {"calibration_length", s.calibration_length},
          {"scale_file", config.scale_file},
          {"scale_file_sha256", config.scale_file.empty() ? "" : FileDigest(config.scale_file)},
          {"program_sha256", FileDigest("/proc/self/exe")},
          {"isa", IsaName(ActiveIsa())},
          {"memory_budget_bytes", engine.options().memory_bytes},
          {"layer_sensitivity", config.layer_sensitivity},
          {"tasks", TaskNames(config.tasks)},
          {"calibration_sha256", text.CalibrationDigest()},
          {"evaluation_sha256", text.EvaluationDigest()},
          {"calibration_tokens", text.calibration_tokens()},
          {"evaluation_tokens", text.evaluation_tokens()},
          {"model",
           {{"name", model.name},
            {"architecture", model.architecture},
            {"sha256", Hex(engine.model().digest)},
            {"layers", model.num_layers},
            {"kv_heads", model.num_kv_heads},
            {"query_heads", model.num_heads},
            {"head_dim", model.head_dim},
            {"context_length", model.context_length},
            {"k_bias", AnyOf(geometry.has_k_bias)},
            {"sliding_window_layers",
             std::count(geometry.sliding_window.begin(), geometry.sliding_window.end(), true)}}}};
}

bool NeedsScales(const std::string& plan) {
  return NeedsStaticScales(ParseKvFormat(plan.substr(0, plan.find(",skip="))));
}

StreamFormat StaticStream(const std::string& plan) {
  const KvFormat format = ParseKvFormat(plan.substr(0, plan.find(",skip=")));
  return format.k.source == ScaleSource::kStatic ? format.k : format.v;
}

uint64_t CalibrationLength(const ExperimentConfig& config) {
  return config.sizes.calibration_length != 0
             ? config.sizes.calibration_length
             : *std::max_element(config.sizes.buckets.begin(), config.sizes.buckets.end());
}

// `split_digest`: of this run's calibration text. Scales made from just that text have seen nothing
// of the evaluation text; of others that is not known.
StoredSample CalibrationSample(const std::string& key, const std::string& file,
                               const CalibratedScales& scales, const std::string& split_digest) {
  StoredSample sample;
  sample.key = key;
  sample.kind = "calibration";
  sample.payload = {{"file", file},
                    {"sha256", Hex(ScaleSetDigest(scales.scales))},
                    {"text_sha256", scales.provenance.text_digest},
                    {"apart_from_evaluation", scales.provenance.text_digest == split_digest},
                    {"tokens", scales.provenance.tokens},
                    {"sequences", scales.provenance.sequence_lengths.size()}};
  return sample;
}

// Scales for a group, from the user's file, from an earlier start of this run, or found now.
std::shared_ptr<const ScaleSet> ScalesFor(const RunContext& context, const std::string& plan) {
  const StreamFormat stream = StaticStream(plan);
  if (!context.config.scale_file.empty()) {
    CalibratedScales read =
        ReadScaleFile(context.config.scale_file, context.engine.model().geometry,
                      Hex(context.engine.model().digest));
    context.Put(CalibrationSample("calibration/file", context.config.scale_file, read,
                                  context.text.CalibrationDigest()));
    return std::make_shared<ScaleSet>(std::move(read.scales));
  }
  const std::string name = fmt::format("scales-{}-{}", static_cast<int>(stream.codec),
                                       static_cast<int>(stream.granularity));
  const std::filesystem::path prefix = context.config.out / name;
  const std::string key = "calibration/" + name;
  if (context.Has(key) && std::filesystem::exists(prefix.string() + ".json")) {
    return std::make_shared<ScaleSet>(ReadScaleFile(prefix.string() + ".json",
                                                    context.engine.model().geometry,
                                                    Hex(context.engine.model().digest))
                                          .scales);
  }
  CalibrationOptions options;
  options.codec = stream.codec;
  options.granularity = stream.granularity;
  options.text_digest = context.text.CalibrationDigest();
  uint64_t last = 0;
  const CalibratedScales scales =
      Calibrate(&context.engine,
                context.text.CalibrationWindows(context.config.sizes.calibration_sequences,
                                                CalibrationLength(context.config)),
                options, [&](uint64_t done, uint64_t) {
                  context.CheckStop();
                  context.Worked("calibration", {.prefilled = done - std::exchange(last, done)});
                });
  WriteScaleFiles(prefix, scales);
  context.Put(
      CalibrationSample(key, prefix.string() + ".json", scales, context.text.CalibrationDigest()));
  return std::make_shared<ScaleSet>(scales.scales);
}

std::string ScaleSourceOf(const KvPlan& plan) {
  bool dynamic = false;
  bool unit = false;
  for (const KvFormat& format : plan.layers) {
    if (NeedsStaticScales(format)) return "static (calibrated)";
    dynamic = dynamic || format.k.source == ScaleSource::kDynamic ||
              format.v.source == ScaleSource::kDynamic;
    unit = unit || IsQuantized(format);
  }
  return dynamic ? "dynamic" : unit ? "unit" : "none";
}

void StoreGroup(const RunContext& context, const RunGroup& group) {
  const std::string key = "group/" + group.group.name;
  if (context.Has(key)) return;
  const PlanLayout& layout = context.engine.plan(group.plan).layout;
  const ModelConfig& model = context.engine.model().config;
  const uint64_t longest =
      *std::max_element(context.config.sizes.buckets.begin(), context.config.sizes.buckets.end());
  const double bytes = SealedBytesPerToken(layout);
  StoredSample sample;
  sample.key = key;
  sample.kind = "group";
  sample.group = group.group.name;
  sample.payload = {
      {"name", group.group.name},
      {"plan", group.group.plan},
      {"role", GroupRoleName(group.group.role)},
      {"digest", Hex(PlanDigest(layout.plan))},
      {"description", DescribePlan(layout.plan)},
      {"scale_source", ScaleSourceOf(layout.plan)},
      {"bytes_per_token_formula", bytes},
      {"bits_per_value",
       bytes * 8 / (2.0 * model.num_layers * model.num_kv_heads * model.head_dim)},
      {"sequences_that_fit",
       {{"tokens", longest},
        {"count", SequencesThatFit(*layout.cache, context.engine.budget().pool, longest,
                                   context.engine.options().prefill_chunk)}}}};
  context.Put(std::move(sample));
}

void StoreMemory(const RunContext& context) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const MemoryBudget& budget = context.engine.budget();
  StoredSample sample;
  sample.key = "memory";
  sample.kind = "memory";
  sample.payload = {{"budget_bytes", budget.total},
                    {"weights_bytes", budget.weights},
                    {"workspace_bytes", budget.workspace},
                    {"logits_bytes", budget.logits},
                    {"tokenizer_bytes", budget.tokenizer},
                    {"pool_bytes", budget.pool},
                    {"peak_process_bytes", static_cast<uint64_t>(usage.ru_maxrss) * 1024},
                    {"used_bytes", context.pool_peak->used_bytes},
                    {"fragmented_bytes", context.pool_peak->fragmented_bytes}};
  context.Put(std::move(sample));
}

Work TotalWork(const ExperimentConfig& config, const KvGeometry& geometry) {
  Work work;
  if (config.tasks.divergence) work += DivergenceWork(config);
  if (config.tasks.needles) work += NeedleWork(config);
  if (config.tasks.free_run) work += FreeRunWork(config);
  if (config.tasks.speed) work += SpeedWork(config);
  if (!config.layer_sensitivity.empty()) work += LayerSensitivityWork(config, geometry.num_layers);
  for (const ExperimentGroup& group : config.groups) {
    if (config.scale_file.empty() && NeedsScales(group.plan)) {
      work.prefilled += config.sizes.calibration_sequences * CalibrationLength(config);
    }
  }
  return work;
}

// Scales of the right shape, to know a plan's layout before its scales are found.
std::shared_ptr<const ScaleSet> PlaceholderScales(const std::string& plan,
                                                  const KvGeometry& geometry) {
  const StreamFormat stream = StaticStream(plan);
  auto scales = std::make_shared<ScaleSet>();
  scales->codec = stream.codec;
  scales->granularity = stream.granularity;
  scales->num_kv_heads = geometry.num_kv_heads;
  scales->head_dim = geometry.head_dim;
  const size_t per_layer = stream.granularity == Granularity::kTensor ? 1
                           : stream.granularity == Granularity::kHead
                               ? geometry.num_kv_heads
                               : size_t{geometry.num_kv_heads} * geometry.head_dim;
  const std::vector<float> ones(per_layer, 1.0F);
  scales->layers.assign(geometry.num_layers, {ones, ones});
  return scales;
}

void CheckLayerSensitivity(const ExperimentConfig& config) {
  const std::string& name = config.layer_sensitivity;
  const bool known =
      name.empty() || std::any_of(config.groups.begin(), config.groups.end(),
                                  [&](const ExperimentGroup& group) { return group.name == name; });
  if (!known) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no group '{}'", name),
                "name one of the groups in --layer-sensitivity");
  }
}

// Divergence holds one sequence of every group at once. Reads the scale file, or looks for the
// text to calibrate on, on the way.
void CheckAllGroupsFit(const ExperimentConfig& config, const TextSplit& text, uint64_t longest,
                       Engine* engine) {
  const KvGeometry& geometry = engine->model().geometry;
  uint64_t bytes = 0;
  uint64_t headroom = 0;
  for (const ExperimentGroup& group : config.groups) {
    std::shared_ptr<const ScaleSet> scales;
    if (NeedsScales(group.plan) && config.scale_file.empty()) {
      text.CalibrationWindows(config.sizes.calibration_sequences, CalibrationLength(config));
      scales = PlaceholderScales(group.plan, geometry);
    } else if (NeedsScales(group.plan)) {
      scales = std::make_shared<ScaleSet>(
          ReadScaleFile(config.scale_file, geometry, Hex(engine->model().digest)).scales);
    }
    const PlanLayout layout = MakePlanLayout(MakeKvPlan(group.plan, geometry, scales), geometry,
                                             engine->model().config.window_tokens);
    bytes = CheckedAdd(bytes, PeakBytes(*layout.cache, longest, 1), "KV blocks");
    headroom =
        std::max(headroom, StepHeadroomBytes(*layout.cache, engine->options().prefill_chunk));
  }
  if (!config.tasks.divergence || bytes + headroom <= engine->budget().pool) return;
  throw Error(ErrorCode::kOverBudget,
              fmt::format("one sequence of {} tokens of each of the {} groups needs {} of KV "
                          "blocks; the pool has {} ({})",
                          longest, config.groups.size(), FormatBytes(bytes + headroom),
                          FormatBytes(engine->budget().pool), DescribeBudget(engine->budget())),
              "raise --memory, shorten --buckets or choose fewer groups");
}

}  // namespace

void RunContext::CheckStop() const {
  if (stop != nullptr && stop->load()) {
    throw Error(ErrorCode::kCancelled, "stopped; what was measured is stored",
                "the same command goes on from here");
  }
}

std::vector<ExperimentGroup> DefaultGroups(const KvGeometry& geometry) {
  const bool biased = AnyOf(geometry.has_k_bias);
  const bool all_biased =
      biased && std::find(geometry.has_k_bias.begin(), geometry.has_k_bias.end(), false) ==
                    geometry.has_k_bias.end();
  std::vector<ExperimentGroup> groups;
  if (all_biased) {
    groups.push_back({"bf16", "bf16+bias_removed", GroupRole::kBaseline});
    groups.push_back({"bf16_plain", "bf16", GroupRole::kGroup});
  } else {
    groups.push_back({"bf16", "bf16", GroupRole::kBaseline});
  }
  groups.push_back({"fp32", "fp32", GroupRole::kFloor});
  groups.push_back({"fp8_e4m3", "fp8_e4m3", GroupRole::kGroup});
  groups.push_back({"fp8_calibrated", "fp8_e4m3:static:head", GroupRole::kGroup});
  const std::string int8 = all_biased ? "int8+bias_removed" : "int8";
  groups.push_back({"int8", int8, GroupRole::kCandidate});
  if (AnyOf(geometry.sliding_window)) {
    const std::string skip = ",skip=sliding_window";
    groups.push_back({"int8_skip", int8 + skip, GroupRole::kGroup});
    groups.push_back({"fp8_skip", "fp8_e4m3" + skip, GroupRole::kGroup});
    groups.push_back({"fp8_calibrated_skip", "fp8_e4m3:static:head" + skip, GroupRole::kGroup});
  }
  groups.push_back({"int2_control", "int2", GroupRole::kNegativeControl});
  return groups;
}

int64_t RunExperiment(const ExperimentConfig& config, Engine* engine, Store* store,
                      const std::atomic<bool>* stop,
                      const std::function<void(const ExperimentProgress&)>& progress) {
  const TextSplit text(*engine->model().tokenizer, config.texts);
  const Json config_json = ConfigJson(config, *engine, text);
  Json stored_config = config_json;
  stored_config["command"] = config.command;
  PoolPeak pool_peak;
  RunContext context{config, *engine, text, *store, 0, {}, stop, {}, &pool_peak};
  context.run =
      store->StartRun(Hex(Sha256Of(config_json.dump())), stored_config, EnvironmentJson(*engine));
  ExperimentProgress state;
  state.total = TotalWork(config, engine->model().geometry).units();
  context.worked = [&](const std::string& what, const Work& work) {
    state.what = what;
    state.done += work.units();
    if (progress) progress(state);
  };
  for (const ExperimentGroup& group : config.groups) {
    const std::shared_ptr<const ScaleSet> scales =
        NeedsScales(group.plan) ? ScalesFor(context, group.plan) : nullptr;
    const PlanId plan = engine->AddPlan(MakeKvPlan(group.plan, engine->model().geometry, scales));
    context.groups.push_back({group, plan});
    StoreGroup(context, context.groups.back());
  }
  if (config.tasks.divergence) RunDivergence(context);
  if (config.tasks.needles) RunNeedles(context);
  if (config.tasks.free_run) RunFreeRuns(context);
  if (config.tasks.speed) RunSpeed(context);
  if (!config.layer_sensitivity.empty()) RunLayerSensitivity(context, config.layer_sensitivity);
  StoreMemory(context);
  store->FinishRun(context.run);
  return context.run;
}

Preflight CheckExperiment(const ExperimentConfig& config, Engine* engine) {
  Preflight preflight;
  const TextSplit text(*engine->model().tokenizer, config.texts);
  const uint64_t longest =
      *std::max_element(config.sizes.buckets.begin(), config.sizes.buckets.end());
  text.EvaluationWindows(config.sizes.documents, longest);
  if (config.tasks.needles) CheckNeedles(config, *engine);
  CheckLayerSensitivity(config);
  CheckAllGroupsFit(config, text, longest, engine);
  preflight.work = TotalWork(config, engine->model().geometry);
  preflight.speed = MeasureSpeed(engine);
  preflight.estimated_seconds = EstimateSeconds(config, engine->model().geometry, preflight.speed);
  for (const ExperimentGroup& group : config.groups) {
    preflight.lines.push_back(
        fmt::format("group {:<16} {} ({})", group.name, group.plan, GroupRoleName(group.role)));
  }
  std::vector<std::string> buckets;
  for (const uint64_t bucket : config.sizes.buckets) buckets.push_back(FormatTokens(bucket));
  preflight.lines.push_back(fmt::format(
      "buckets {}; {} documents and {} haystacks each; {} tokens to run, prefill at {:.0f} and "
      "decoding at {:.0f} tokens/s: about {:.0f} s",
      fmt::join(buckets, ", "), config.sizes.documents, config.sizes.haystacks,
      preflight.work.tokens(), 1 / preflight.speed.prefilled, 1 / preflight.speed.decoded,
      preflight.estimated_seconds));
  return preflight;
}

double EstimateSeconds(const ExperimentConfig& config, const KvGeometry& geometry,
                       const EngineSpeed& speed) {
  // The probe is short: attention over long contexts comes on top.
  constexpr double kOverhead = 1.1;
  return kOverhead * SecondsFor(TotalWork(config, geometry), speed);
}

double FitTimeBudget(double budget_seconds, ExperimentConfig* config, Engine* engine) {
  const TextSplit text(*engine->model().tokenizer, config->texts);
  const EngineSpeed speed = MeasureSpeed(engine);
  const ExperimentSizes preset = config->sizes;
  const uint64_t longest = *std::max_element(preset.buckets.begin(), preset.buckets.end());
  const auto scaled = [](uint64_t value, double factor) {
    return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(value) * factor));
  };
  const auto estimate = [&](double factor) {
    ExperimentSizes& sizes = config->sizes;
    sizes.documents = std::min(scaled(preset.documents, factor),
                               std::max<uint64_t>(1, text.evaluation_tokens() / longest));
    sizes.haystacks = scaled(preset.haystacks, factor);
    sizes.free_runs = scaled(preset.free_runs, factor);
    return EstimateSeconds(*config, engine->model().geometry, speed);
  };
  // Steps of a fifth, from the most down: a preset's sizes times 64 to a 64th.
  constexpr double kLargest = 64;
  for (double factor = kLargest; factor > 1 / kLargest; factor /= 1.2) {
    const double seconds = estimate(factor);
    if (seconds <= budget_seconds) return seconds;
  }
  return estimate(0);
}

}  // namespace kvant
