// Speed of the whole engine on a real model: prompt processing, and decoding by context depth.
// What bench/compare-llama sets beside llama-bench.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/core/random.h"
#include "kvant/engine/engine.h"
#include "kvant/format/kv_plan.h"
#include "kvant/kernel/isa.h"

namespace kvant {
namespace {

struct Flags {
  std::string model;
  std::string format = "int8";
  size_t threads = 2;
  uint32_t prompt_tokens = 512;
  uint32_t decoded_tokens = 32;
  std::vector<uint32_t> depths = {0, 4096};
  std::string memory = "8GiB";
  bool json = false;
};

constexpr uint32_t kWarmUpPrompt = 64;
constexpr uint32_t kWarmUpTokens = 4;

std::vector<TokenId> RandomPrompt(uint64_t seed, uint32_t tokens, uint32_t vocabulary) {
  Random random(seed);
  std::vector<TokenId> prompt(tokens);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random.Below(vocabulary));
  return prompt;
}

Completion Run(Engine* engine, PlanId plan, uint32_t prompt_tokens, uint32_t new_tokens) {
  Request request;
  request.plan = plan;
  request.prompt = RandomPrompt(prompt_tokens, prompt_tokens, engine->model().config.vocabulary);
  request.max_new_tokens = new_tokens;
  request.ignore_end_of_text = true;
  request.reuse_prefix = false;
  return engine->Generate(std::move(request));
}

double PrefillTokensPerSecond(Engine* engine, PlanId plan, uint32_t tokens) {
  const Completion done = Run(engine, plan, tokens, 1);
  return tokens / (done.first_token_s - done.admitted_s);
}

// Milliseconds per token, behind a prompt of `depth` tokens (at least one).
double DecodeMs(Engine* engine, PlanId plan, uint32_t depth, uint32_t tokens) {
  const Completion done = Run(engine, plan, std::max(depth, 1U), tokens + 1);
  return 1000 * (done.finished_s - done.first_token_s) / tokens;
}

void Bench(const Flags& flags) {
  EngineOptions options;
  options.memory_bytes = ParseBytes(flags.memory);
  options.num_threads = flags.threads;
  options.max_batch = 1;
  for (const uint32_t depth : flags.depths) {
    options.max_context = std::max<uint64_t>(options.max_context, depth + flags.decoded_tokens + 2);
  }
  options.max_context = std::max<uint64_t>(options.max_context, flags.prompt_tokens + 1);
  options.max_context = std::max<uint64_t>(options.max_context, kWarmUpPrompt + kWarmUpTokens);
  Engine engine(LoadModel(flags.model), options);
  const PlanId plan = engine.AddPlan(MakeKvPlan(flags.format, engine.model().geometry));
  Run(&engine, plan, kWarmUpPrompt, kWarmUpTokens);  // pages touched, threads awake

  Json result = {
      {"model", flags.model},
      {"format", flags.format},
      {"threads", flags.threads},
      {"kernel", IsaName(ActiveIsa())},
      {"prefill_tokens_per_s", PrefillTokensPerSecond(&engine, plan, flags.prompt_tokens)},
      {"decode_ms", Json::object()}};
  for (const uint32_t depth : flags.depths) {
    result["decode_ms"][std::to_string(depth)] =
        DecodeMs(&engine, plan, depth, flags.decoded_tokens);
  }
  if (flags.json) {
    std::printf("%s\n", result.dump(1).c_str());
    return;
  }
  std::printf("prefill of %u: %.0f tokens/s\n", flags.prompt_tokens,
              result["prefill_tokens_per_s"].get<double>());
  for (const auto& [depth, ms] : result["decode_ms"].items()) {
    std::printf("decode at %s: %.1f ms per token\n", depth.c_str(), ms.get<double>());
  }
}

}  // namespace
}  // namespace kvant

int main(int argc, char** argv) {
  kvant::Flags flags;
  CLI::App app("Speed of the engine: prefill, and decoding by depth of context");
  app.add_option("-m,--model", flags.model, "GGUF checkpoint")->required();
  app.add_option("-f,--format", flags.format, "KV format or plan");
  app.add_option("-t,--threads", flags.threads, "threads");
  app.add_option("-p,--prompt", flags.prompt_tokens,
                 "tokens of the prompt that prefill is timed on")
      ->check(CLI::Range(1U, 1U << 20));
  app.add_option("-n,--decode", flags.decoded_tokens, "tokens to decode")
      ->check(CLI::Range(1U, 1U << 20));
  app.add_option("-d,--depth", flags.depths, "context depths to decode at")->delimiter(',');
  app.add_option("--memory", flags.memory, "budget of the process");
  app.add_flag("--json", flags.json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  try {
    kvant::Bench(flags);
  } catch (const kvant::Error& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}
