// kvant experiment: the main job.
#include "kvant/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>

#include "kvant/cli/command.h"
#include "kvant/cli/text_input.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/evaluate/statistics.h"
#include "kvant/experiment/text_split.h"
#include "kvant/report/report_html.h"
#include "kvant/report/report_json.h"

namespace kvant {

namespace {

struct ExperimentFlags {
  EngineFlags engine;
  std::vector<std::string> text;
  std::vector<std::string> groups;
  std::string baseline;
  std::string candidate;
  std::string preset = "quick";
  std::string buckets;
  uint64_t documents = 0;
  uint64_t haystacks = 0;
  std::string scales;
  std::string rules;
  std::string out = "out/experiment";
  double time_budget_s = 0;
  std::string layer_sensitivity;
  uint64_t seed = 1;
  std::string tasks;
  bool no_control = false;
  bool dry_run = false;
  bool json = false;
  std::string command;
  std::string deciding_command;
};

std::atomic<bool> stop_requested = false;
void RequestStop(int) { stop_requested = true; }

std::vector<uint64_t> ParseBuckets(const std::string& text) {
  std::vector<uint64_t> buckets;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    buckets.push_back(ParseTokens(std::string_view(text).substr(start, end - start)));
    start = end + 1;
  }
  std::sort(buckets.begin(), buckets.end());
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  if (buckets.front() < 2 * kBlockTokens) {
    throw Error(ErrorCode::kUsage, fmt::format("a bucket of {} tokens", buckets.front()),
                fmt::format("at least {} tokens: below, nothing is quantized", 2 * kBlockTokens));
  }
  return buckets;
}

// "NAME=PLAN" or "PLAN", whose name is then its text.
ExperimentGroup ParseGroup(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t comma = text.find(',');
  const bool named = equals != std::string::npos && equals < comma &&
                     text.compare(0, equals, "k") != 0 && text.compare(0, equals, "v") != 0;
  ExperimentGroup group;
  group.name = named ? text.substr(0, equals) : text;
  group.plan = PlanText(named ? text.substr(equals + 1) : text);
  return group;
}

std::vector<ExperimentGroup> GroupsOf(const ExperimentFlags& flags, const KvGeometry& geometry) {
  std::vector<ExperimentGroup> groups = DefaultGroups(geometry);
  if (!flags.baseline.empty()) {
    groups.front() = ParseGroup(flags.baseline);
    groups.front().role = GroupRole::kBaseline;
  }
  if (!flags.groups.empty()) {
    std::vector<ExperimentGroup> chosen = {groups.front()};
    for (const std::string& text : flags.groups) chosen.push_back(ParseGroup(text));
    for (const ExperimentGroup& group : groups) {
      const bool kept =
          group.role == GroupRole::kFloor || group.role == GroupRole::kNegativeControl;
      if (kept) chosen.push_back(group);
    }
    groups = chosen;
  }
  if (flags.no_control) {
    std::erase_if(groups, [](const ExperimentGroup& group) {
      return group.role == GroupRole::kNegativeControl;
    });
  }
  // The floor is the distance of the baseline from fp32; it has none from itself.
  std::erase_if(groups, [&](const ExperimentGroup& group) {
    return group.role == GroupRole::kFloor && group.plan == groups.front().plan;
  });
  const auto wanted = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return flags.candidate.empty() ? group.role == GroupRole::kCandidate
                                   : group.name == flags.candidate;
  });
  for (ExperimentGroup& group : groups) {
    if (group.role == GroupRole::kCandidate) group.role = GroupRole::kGroup;
  }
  if (!flags.candidate.empty() && wanted == groups.end()) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no group '{}'", flags.candidate),
                "name one of the groups in --candidate");
  }
  ExperimentGroup* candidate = wanted != groups.end() ? &*wanted : &groups[1];
  if (candidate->role != GroupRole::kGroup) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' is the {} and gets no verdict", candidate->name,
                            GroupRoleName(candidate->role)),
                "name another group in --candidate");
  }
  candidate->role = GroupRole::kCandidate;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (groups[i].name == groups[j].name) {
        throw Error(ErrorCode::kUsage, fmt::format("two groups are named '{}'", groups[i].name),
                    "give one another name: NAME=PLAN");
      }
    }
  }
  return groups;
}

ExperimentConfig MakeConfig(const ExperimentFlags& flags, const KvGeometry& geometry) {
  ExperimentConfig config;
  config.preset = flags.preset;
  config.sizes = PresetSizes(flags.preset);
  if (!flags.buckets.empty()) config.sizes.buckets = ParseBuckets(flags.buckets);
  if (flags.documents > 0) config.sizes.documents = flags.documents;
  if (flags.haystacks > 0) config.sizes.haystacks = flags.haystacks;
  config.groups = GroupsOf(flags, geometry);
  config.texts = ReadTexts(flags.text);
  config.scale_file = flags.scales;
  config.layer_sensitivity = flags.layer_sensitivity;
  if (!flags.tasks.empty()) config.tasks = ParseTasks(flags.tasks);
  config.seed = flags.seed;
  config.out = flags.out;
  config.command = flags.command;
  return config;
}

VerdictRules ReadRules(const std::string& path) {
  if (path.empty()) return {};
  return RulesFromJson(ParseJson(ReadWholeFile(path, 1 << 20), path), path);
}

void WriteReports(const ExperimentFlags& flags, const Json& report) {
  const std::filesystem::path out = flags.out;
  WriteFileAtomically(out / "report.json", report.dump(1) + "\n");
  WriteFileAtomically(out / "report.html", RenderReportHtml(report));
}

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

void PrintSummary(const ExperimentFlags& flags, const Json& report) {
  const std::string baseline = report["config"]["baseline"].get<std::string>();
  std::printf("\n%s, baseline %s, mean KLD and same top-1 over the second half of each document\n",
              report["model"]["name"].get<std::string>().c_str(), baseline.c_str());
  std::printf("%-18s %8s %6s %6s %22s %10s\n", "group", "bytes/t", "bucket", "docs",
              "mean KLD [95 %]", "same top-1");
  for (const Json& row : report["divergence"]) {
    std::string bytes = "-";
    for (const Json& group : report["groups"]) {
      if (group["name"] == row["group"]) {
        bytes = fmt::format("{:.0f}", group["bytes_per_token_formula"].get<double>());
      }
    }
    if (row["mean_kld"].is_null()) {
      std::printf("%-18s %8s %6s %6d %22s\n", row["group"].get<std::string>().c_str(),
                  bytes.c_str(), FormatTokens(row["bucket"].get<uint64_t>()).c_str(),
                  row["documents"].get<int>(), "no finite logits");
      continue;
    }
    const std::string interval =
        row["mean_low"].is_null()
            ? fmt::format("{:.2g}", row["mean_kld"].get<double>())
            : fmt::format("{:.2g} [{:.1g}, {:.1g}]", row["mean_kld"].get<double>(),
                          row["mean_low"].get<double>(), row["mean_high"].get<double>());
    std::printf("%-18s %8s %6s %6d %22s %10s\n", row["group"].get<std::string>().c_str(),
                bytes.c_str(), FormatTokens(row["bucket"].get<uint64_t>()).c_str(),
                row["documents"].get<int>(), interval.c_str(),
                Percent(row["same_top1"].get<double>()).c_str());
  }
  std::printf("\n");
  for (const Json& row : report["verdicts"]) {
    std::printf("%-18s %s\n", row["group"].get<std::string>().c_str(),
                row["verdict"].get<std::string>().c_str());
    if (!row["reasons"].empty()) {
      std::printf("%18s because %s\n", "", row["reasons"][0].get<std::string>().c_str());
    }
  }
  std::printf("\ncalibration: %s\n",
              report["calibration_effect"]["text"].get<std::string>().c_str());
  std::printf("report: %s/report.html, %s/report.json\n", flags.out.c_str(), flags.out.c_str());
}

// As a shell takes it for one word.
std::string Quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=:,./") == std::string::npos;
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// What can decide where this run could not: the standard preset, with as many haystacks as the
// rules need to clear a group without a loss.
ExperimentConfig DecidingConfig(const ExperimentFlags& flags, const VerdictRules& rules,
                                uint64_t context_length, ExperimentConfig config) {
  config.preset = "standard";
  config.sizes = PresetSizes(config.preset);
  config.sizes.haystacks = std::max<uint64_t>(
      config.sizes.haystacks, UnitsToClear(rules.needle_margin, rules.needle_confidence));
  if (!flags.buckets.empty()) config.sizes.buckets = ParseBuckets(flags.buckets);
  std::erase_if(config.sizes.buckets, [&](uint64_t bucket) { return bucket > context_length; });
  return config;
}

std::string BucketsText(const std::vector<uint64_t>& buckets) {
  std::string text;
  for (const uint64_t bucket : buckets) text += (text.empty() ? "" : ",") + FormatTokens(bucket);
  return text;
}

// Says so if the text is too short for a configuration.
void WarnOfMissingText(const Tokenizer& tokenizer, const ExperimentConfig& config) {
  const TextSplit text(tokenizer, config.texts);
  try {
    text.EvaluationWindows(config.sizes.documents, config.sizes.buckets.back());
  } catch (const Error& error) {
    std::printf("but %s; %s\n", error.message().c_str(), error.hint().c_str());
  }
}

void PrintNextStep(const ExperimentFlags& flags, const Json& report, const Tokenizer& tokenizer,
                   const ExperimentConfig& deciding, double deciding_seconds) {
  const std::string candidate = report["config"]["candidate"].get<std::string>();
  for (const Json& row : report["verdicts"]) {
    if (row["group"] != candidate || row["verdict"] != "inconclusive") continue;
    for (const Json& line : row["would_decide"]) {
      std::printf("would decide: %s\n", line.get<std::string>().c_str());
    }
    std::printf(
        "run this to decide (about %.0f minutes here):\n  %s --preset %s --buckets %s --haystacks "
        "%llu --out %s\n",
        deciding_seconds / 60 + 1, flags.deciding_command.c_str(), deciding.preset.c_str(),
        BucketsText(deciding.sizes.buckets).c_str(),
        static_cast<unsigned long long>(deciding.sizes.haystacks),
        Quoted(flags.out + "-standard").c_str());
    WarnOfMissingText(tokenizer, deciding);
  }
}

uint64_t ScoringBytes(const ModelConfig& model) {
  // Two buffers of at most a chunk's logits.
  const uint64_t row = uint64_t{model.vocabulary} * sizeof(float);
  return 2 * std::max<uint64_t>(48ULL << 20, row * kBlockTokens);
}

int RunCommand(const ExperimentFlags& flags) {
  if (!flags.engine.context.empty()) {
    throw Error(ErrorCode::kUsage, "an experiment's context is its longest bucket",
                "give --buckets instead of --context");
  }
  Model model = LoadModel(flags.engine.model);
  ExperimentConfig config = MakeConfig(flags, model.geometry);
  EngineOptions options = MakeEngineOptions(flags.engine);
  options.max_context = std::max<uint64_t>(config.sizes.buckets.back(), 512);
  if (options.max_context > model.config.context_length) {
    throw Error(ErrorCode::kUsage,
                fmt::format("a bucket of {} tokens is over the model's context of {}",
                            options.max_context, model.config.context_length),
                "choose shorter --buckets");
  }
  options.scoring_bytes = ScoringBytes(model.config);
  const VerdictRules rules = ReadRules(flags.rules);
  Engine engine(std::move(model), options);
  if (flags.time_budget_s > 0) {
    const double seconds = FitTimeBudget(flags.time_budget_s, &config, &engine);
    if (seconds > flags.time_budget_s) {
      std::fprintf(stderr, "kvant: even the smallest sizes take about %.0f s, over the budget\n",
                   seconds);
    }
  }
  const Preflight preflight = CheckExperiment(config, &engine);
  for (const std::string& line : preflight.lines) std::fprintf(stderr, "kvant: %s\n", line.c_str());
  if (flags.dry_run) return 0;

  MakeFolder(flags.out);
  Store store(std::filesystem::path(flags.out) / "results.db");
  std::signal(SIGINT, RequestStop);
  std::signal(SIGTERM, RequestStop);
  int64_t run = 0;
  {
    ProgressLine progress("experiment");
    run = RunExperiment(config, &engine, &store, &stop_requested,
                        [&](const ExperimentProgress& p) { progress.Update(p.done, p.total); });
  }
  const Json report = BuildReport(store, run, rules);
  WriteReports(flags, report);
  if (flags.json) {
    std::printf("%s\n", report.dump(1).c_str());
  } else {
    PrintSummary(flags, report);
    const ExperimentConfig deciding =
        DecidingConfig(flags, rules, engine.model().config.context_length, config);
    PrintNextStep(flags, report, *engine.model().tokenizer, deciding,
                  EstimateSeconds(deciding, engine.model().geometry, preflight.speed));
  }
  return VerdictExitCode(VerdictOf(report, report["config"]["candidate"].get<std::string>()));
}

// The options as given; without those in `left_out`.
std::string CommandLine(const CLI::App* command, const std::set<std::string>& left_out) {
  std::string line = Quoted(command->get_parent()->get_name()) + " experiment";
  for (const CLI::Option* option : command->get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--help" || left_out.contains(name)) continue;
    line += " " + name;
    if (option->get_items_expected_max() == 0) continue;  // a flag
    for (const std::string& value : option->results()) line += " " + Quoted(value);
  }
  return line;
}

}  // namespace

void AddExperimentCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<ExperimentFlags>();
  CLI::App* command = app->add_subcommand(
      "experiment",
      "Ship, canary, or don't: 16-bit against quantized caches on your text\n\nExamples:\n"
      "  kvant experiment -m model.gguf --text docs/\n"
      "  kvant experiment -m model.gguf --text docs/ --group mine=int4,skip=0,1 --buckets 2K,8K\n"
      "  kvant experiment -m model.gguf --text docs/ --time-budget 600");
  AddEngineFlags(command, &flags->engine);
  command->add_option("--text", flags->text, "your text: files or folders")->required();
  command->add_option("--group", flags->groups,
                      "NAME=PLAN, repeatable (default: the standard set)");
  command->add_option("--baseline", flags->baseline, "NAME=PLAN (default: bf16)");
  command->add_option(
      "--candidate", flags->candidate,
      "the group whose verdict is the exit code (default: int8, or the first --group)");
  command->add_option("--preset", flags->preset, "quick (default), standard or full");
  command->add_option("--buckets", flags->buckets, "context lengths, as in 512,2K,8K");
  command->add_option("--documents", flags->documents, "per bucket, for divergence");
  command->add_option("--haystacks", flags->haystacks, "per bucket, of five questions each");
  command->add_option("--scales", flags->scales, "scale file of kvant calibrate (JSON)");
  command->add_option("--rules", flags->rules, "verdict rules (JSON; see docs/statistics.md)");
  command->add_option("--time-budget", flags->time_budget_s,
                      "seconds; sizes grow or shrink to fit");
  command->add_option("--layer-sensitivity", flags->layer_sensitivity,
                      "quantize one layer of this group at a time");
  command->add_option("--seed", flags->seed, "of haystacks and intervals");
  command->add_option("-o,--out", flags->out, "folder of results and report");
  command->add_option("--tasks", flags->tasks,
                      "what to measure (default all): divergence,needles,free_run,speed");
  command->add_flag("--no-control", flags->no_control,
                    "no negative control: the verdict is canary at best");
  command->add_flag("--dry-run", flags->dry_run, "only the preflight");
  command->add_flag("--json", flags->json, "the report's JSON on stdout");
  command->callback([flags, body, command] {
    flags->command = CommandLine(command, {});
    // What the deciding run replaces: its folder and its sizes.
    flags->deciding_command =
        CommandLine(command, {"--out", "--preset", "--documents", "--haystacks", "--time-budget",
                              "--buckets", "--json"});
    *body = [flags] { return RunCommand(*flags); };
  });
}

}  // namespace kvant
