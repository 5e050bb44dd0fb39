#include "kvant/experiment/generation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kvant/evaluate/degradation.h"
#include "kvant/evaluate/needle_task.h"

namespace kvant {

namespace {

constexpr uint64_t kFreeRunPrompt = 128;
constexpr uint32_t kSpeedTokens = 24;

std::vector<TokenId> EncodeText(const Engine& engine, const std::string& text) {
  return engine.model().tokenizer->Encode(text, {.parse_special = false, .add_special = true});
}

NeedleOptions OptionsFor(const ExperimentConfig& config, uint64_t bucket, uint64_t haystack) {
  NeedleOptions options;
  options.tokens = bucket;
  options.seed = config.seed * 1'000'003 + bucket * 1009 + haystack;
  return options;
}

CountTokens CounterOf(const Engine& engine) {
  return [&engine](std::string_view text) {
    return engine.model().tokenizer->Encode(text, {}).size();
  };
}

// One group on one haystack: its text once, and all answers.
Work HaystackWork(uint64_t bucket) {
  const NeedleOptions options;
  return {.prefilled = bucket, .decoded = options.depths.size() * options.answer_tokens};
}

// One group on all prompts, which are decoded together: another row costs about a third of the
// first.
Work FreeRunGroupWork(const ExperimentSizes& sizes) {
  return {.prefilled = sizes.free_runs * kFreeRunPrompt,
          .decoded = sizes.free_run_tokens * (sizes.free_runs + 2) / 3};
}

Work SpeedGroupWork(uint64_t bucket) {
  return {.prefilled = bucket - kSpeedTokens, .decoded = kSpeedTokens};
}

bool MeasuresSpeed(const ExperimentGroup& group) {
  return group.role != GroupRole::kNegativeControl;
}

void AskOne(const RunContext& context, const RunGroup& group, uint64_t bucket, uint64_t number,
            const Haystack& haystack, const Needle& needle, uint32_t answer_tokens) {
  const std::string key =
      fmt::format("needle/{}/{}/{}/{}", group.group.name, bucket, number, needle.depth);
  if (context.Has(key)) return;
  context.CheckStop();
  Request request;
  request.plan = group.plan;
  request.prompt = EncodeText(context.engine, haystack.text + QuestionFor(needle));
  request.max_new_tokens = answer_tokens;
  const Completion done = context.engine.Generate(std::move(request));
  StoredSample sample;
  sample.key = key;
  sample.kind = "needle";
  sample.group = group.group.name;
  sample.bucket = bucket;
  sample.payload = {{"haystack", number},
                    {"depth", needle.depth},
                    {"key", needle.key},
                    {"value", needle.value},
                    {"answer", done.text},
                    {"right", AnswersNeedle(done.text, needle)},
                    {"prompt_tokens", done.prompt_tokens},
                    {"cached_tokens", done.cached_tokens}};
  context.Put(std::move(sample));
}

Request FreeRunRequest(const RunContext& context, PlanId plan, const std::vector<TokenId>& window) {
  Request request;
  request.plan = plan;
  request.prompt = window;
  request.max_new_tokens = static_cast<uint32_t>(context.config.sizes.free_run_tokens);
  request.reuse_prefix = false;
  return request;
}

// One group over all prompts, batched.
std::vector<Completion> RunAllPrompts(const RunContext& context, PlanId plan,
                                      const std::vector<std::vector<TokenId>>& prompts) {
  std::vector<Completion> completions(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    RequestCallbacks callbacks;
    callbacks.on_completion = [&completions, i](const Completion& c) { completions[i] = c; };
    context.engine.Submit(FreeRunRequest(context, plan, prompts[i]), std::move(callbacks));
  }
  while (context.engine.Step()) context.CheckStop();
  return completions;
}

std::string FreeRunKey(const std::string& group, size_t prompt) {
  return fmt::format("free_run/{}/{}", group, prompt);
}

double NowMs() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Json MeasureTpot(const RunContext& context, PlanId plan, const std::vector<TokenId>& window,
                 Json* ttft) {
  Request request;
  request.plan = plan;
  request.prompt.assign(window.begin(), window.end() - kSpeedTokens);
  request.max_new_tokens = kSpeedTokens;
  request.ignore_end_of_text = true;
  request.reuse_prefix = false;
  const size_t prompt_tokens = request.prompt.size();
  std::vector<double> times;
  double last = 0;
  const Completion done = context.engine.Generate(std::move(request), [&](const TokenEvent&) {
    const double now = NowMs();
    if (last > 0) times.push_back(now - last);
    last = now;
  });
  ttft->push_back(
      {{"tokens", prompt_tokens}, {"ms", 1000 * (done.first_token_s - done.submitted_s)}});
  std::sort(times.begin(), times.end());
  return {{"context", prompt_tokens},
          {"ms", times[times.size() / 2]},
          {"low", times[times.size() / 4]},
          {"high", times[times.size() * 3 / 4]}};
}

}  // namespace

void RunNeedles(const RunContext& context) {
  const CountTokens count = CounterOf(context.engine);
  for (const uint64_t bucket : context.config.sizes.buckets) {
    for (uint64_t number = 0; number < context.config.sizes.haystacks; ++number) {
      const NeedleOptions options = OptionsFor(context.config, bucket, number);
      const Haystack haystack = MakeHaystack(options, count);
      for (const RunGroup& group : context.groups) {
        if (group.group.role == GroupRole::kFloor) continue;
        for (const Needle& needle : haystack.needles) {
          AskOne(context, group, bucket, number, haystack, needle,
                 static_cast<uint32_t>(options.answer_tokens));
        }
        context.engine.ClearPrefixes();
        context.Worked(fmt::format("needles at {}", bucket), HaystackWork(bucket));
      }
    }
  }
}

void CheckNeedles(const ExperimentConfig& config, const Engine& engine) {
  const std::vector<uint64_t>& buckets = config.sizes.buckets;
  const uint64_t shortest = *std::min_element(buckets.begin(), buckets.end());
  MakeHaystack(OptionsFor(config, shortest, 0), CounterOf(engine));
}

Work NeedleWork(const ExperimentConfig& config) {
  Work work;
  for (const uint64_t bucket : config.sizes.buckets) {
    for (const ExperimentGroup& group : config.groups) {
      if (group.role == GroupRole::kFloor) continue;
      for (uint64_t i = 0; i < config.sizes.haystacks; ++i) work += HaystackWork(bucket);
    }
  }
  return work;
}

void RunFreeRuns(const RunContext& context) {
  const ExperimentSizes& sizes = context.config.sizes;
  if (sizes.free_runs == 0) return;
  const auto prompts = context.text.EvaluationWindows(sizes.free_runs, kFreeRunPrompt);
  std::vector<Completion> baseline;
  for (const RunGroup& group : context.groups) {
    bool missing = false;
    for (size_t i = 0; i < prompts.size(); ++i) {
      missing = missing || !context.Has(FreeRunKey(group.group.name, i));
    }
    if (missing) {
      if (baseline.empty()) {
        baseline = RunAllPrompts(context, context.baseline().plan, prompts);
      }
      const std::vector<Completion> runs =
          &group == &context.baseline() ? baseline : RunAllPrompts(context, group.plan, prompts);
      for (size_t i = 0; i < runs.size(); ++i) {
        const Repetition repetition = TailRepetition(runs[i].tokens);
        StoredSample sample;
        sample.key = FreeRunKey(group.group.name, i);
        sample.kind = "free_run";
        sample.group = group.group.name;
        sample.payload = {{"prompt", i},
                          {"tokens", runs[i].tokens},
                          {"agreement", AgreementLength(baseline[i].tokens, runs[i].tokens)},
                          {"baseline_tokens", baseline[i].tokens.size()},
                          {"period", repetition.period},
                          {"copies", repetition.copies},
                          {"finish", FinishReasonName(runs[i].finish)}};
        context.Put(std::move(sample));
      }
    }
    context.Worked("free running", FreeRunGroupWork(sizes));
  }
}

Work FreeRunWork(const ExperimentConfig& config) {
  Work work;
  if (config.sizes.free_runs == 0) return work;
  for (size_t i = 0; i < config.groups.size(); ++i) work += FreeRunGroupWork(config.sizes);
  return work;
}

void RunSpeed(const RunContext& context) {
  for (const RunGroup& group : context.groups) {
    const std::string key = "speed/" + group.group.name;
    if (!MeasuresSpeed(group.group)) continue;
    if (!context.Has(key)) {
      Json ttft = Json::array();
      Json tpot = Json::array();
      for (const uint64_t bucket : context.config.sizes.buckets) {
        context.CheckStop();
        const auto window = context.text.EvaluationWindows(1, bucket).front();
        tpot.push_back(MeasureTpot(context, group.plan, window, &ttft));
      }
      StoredSample sample;
      sample.key = key;
      sample.kind = "speed";
      sample.group = group.group.name;
      sample.payload = {{"ttft", ttft}, {"tpot", tpot}};
      context.Put(std::move(sample));
    }
    for (const uint64_t bucket : context.config.sizes.buckets) {
      context.Worked("speed", SpeedGroupWork(bucket));
    }
  }
}

Work SpeedWork(const ExperimentConfig& config) {
  Work work;
  for (const ExperimentGroup& group : config.groups) {
    if (!MeasuresSpeed(group)) continue;
    for (const uint64_t bucket : config.sizes.buckets) work += SpeedGroupWork(bucket);
  }
  return work;
}

}  // namespace kvant
