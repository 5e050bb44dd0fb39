// kvant generate: one prompt, streamed.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "kvant/calibrate/scale_file.h"
#include "kvant/cli/command.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/kernel/isa.h"
#include "kvant/model/chat_template/chat_template.h"

namespace kvant {

namespace {

struct GenerateFlags {
  EngineFlags engine;
  std::string prompt;
  std::string format = "int8";
  std::string scales;
  std::string system;
  bool raw = false;
  bool json = false;
  uint32_t max_tokens = 256;
  SamplingParameters sampling;
  std::vector<std::string> stop;
};

std::string ReadPrompt(const GenerateFlags& flags) {
  if (flags.prompt != "-") return flags.prompt;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::string SpecialText(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? tokenizer.Piece(*token, true) : std::string();
}

// The chat as its template writes it. `system` may be empty.
std::string RenderChat(const Model& model, const std::string& system, const std::string& prompt) {
  OrderedJson messages = OrderedJson::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  const OrderedJson extra = {{"bos_token", SpecialText(*model.tokenizer, model.tokenizer->bos())},
                             {"eos_token", SpecialText(*model.tokenizer, model.tokenizer->eos())}};
  return ChatTemplate(model.chat_template).Render(messages, nullptr, true, extra);
}

bool SpellsSpecialToken(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.Encode(text, {.parse_special = true, .add_special = false}) !=
         tokenizer.Encode(text, {.parse_special = false, .add_special = false});
}

// Special tokens are the template's only. The user's text stands in for by characters of private
// use, and is encoded apart: its "<|im_end|>" stays text.
std::vector<TokenId> EncodeChatApart(const Model& model, const std::string& system,
                                     const std::string& prompt) {
  const std::pair<std::string, const std::string*> stand_ins[] = {{"\uE0F0\uE0F1", &system},
                                                                  {"\uE0F2\uE0F3", &prompt}};
  std::string rendered =
      RenderChat(model, system.empty() ? "" : stand_ins[0].first, stand_ins[1].first);
  std::vector<TokenId> tokens;
  const auto append = [&](std::string_view text, bool special) {
    const std::vector<TokenId> more =
        model.tokenizer->Encode(text, {.parse_special = special, .add_special = false});
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  for (const auto& [stand_in, text] : stand_ins) {
    if (text->empty()) continue;
    const size_t at = rendered.find(stand_in);
    if (at == std::string::npos) {
      throw Error(ErrorCode::kUnsupported,
                  "the prompt spells a special token, and the chat template rewrites prompts",
                  "leave the special token out, or use --raw");
    }
    append(std::string_view(rendered).substr(0, at), true);
    append(*text, false);
    rendered.erase(0, at + stand_in.size());
  }
  append(rendered, true);
  return tokens;
}

std::vector<TokenId> EncodePrompt(const Model& model, const GenerateFlags& flags) {
  const std::string prompt = ReadPrompt(flags);
  if (flags.raw || model.chat_template.empty()) {
    if (!flags.raw) {
      std::fprintf(stderr, "kvant: the model has no chat template; the prompt goes in raw\n");
    }
    return model.tokenizer->Encode(prompt, {.parse_special = false, .add_special = true});
  }
  if (SpellsSpecialToken(*model.tokenizer, prompt) ||
      SpellsSpecialToken(*model.tokenizer, flags.system)) {
    return EncodeChatApart(model, flags.system, prompt);
  }
  const std::string text = RenderChat(model, flags.system, prompt);
  // The template writes the beginning token itself.
  return model.tokenizer->Encode(text, {.parse_special = true, .add_special = false});
}

int Generate(const GenerateFlags& flags) {
  EngineOptions options = MakeEngineOptions(flags.engine);
  options.max_batch = 1;
  Model model = LoadModel(flags.engine.model);
  std::shared_ptr<const ScaleSet> scales;
  if (!flags.scales.empty()) {
    scales = std::make_shared<ScaleSet>(
        ReadScaleFile(flags.scales, model.geometry, Hex(model.digest)).scales);
  }
  const KvPlan plan = MakeKvPlan(PlanText(flags.format), model.geometry, scales);
  Engine engine(std::move(model), options);
  Request request;
  request.plan = engine.AddPlan(plan);
  request.prompt = EncodePrompt(engine.model(), flags);
  request.max_new_tokens = flags.max_tokens;
  request.sampling = flags.sampling;
  request.stop_strings = flags.stop;
  std::fprintf(stderr, "kvant: KV cache %s; kernels %s; %s\n", DescribePlan(plan).c_str(),
               std::string(IsaName(ActiveIsa())).c_str(), DescribeBudget(engine.budget()).c_str());
  const Completion done = engine.Generate(std::move(request), [&](const TokenEvent& event) {
    if (flags.json) return;
    std::fwrite(event.text.data(), 1, event.text.size(), stdout);
    std::fflush(stdout);
  });
  const double decode_s = done.finished_s - done.first_token_s;
  const double tpot_ms =
      done.tokens.size() < 2 ? 0 : 1000 * decode_s / static_cast<double>(done.tokens.size() - 1);
  const double ttft_ms = 1000 * (done.first_token_s - done.submitted_s);
  if (flags.json) {
    const Json document = {{"text", done.text},
                           {"finish_reason", FinishReasonName(done.finish)},
                           {"prompt_tokens", done.prompt_tokens},
                           {"completion_tokens", done.tokens.size()},
                           {"format", ToString(plan.layers.front())},
                           {"plan_sha256", Hex(PlanDigest(plan))},
                           {"ttft_ms", ttft_ms},
                           {"tpot_ms", tpot_ms},
                           {"kernel", IsaName(ActiveIsa())}};
    std::printf("%s\n", document.dump(1).c_str());
    return 0;
  }
  std::printf("\n");
  std::fprintf(stderr, "kvant: %zu + %zu tokens, TTFT %.0f ms, TPOT %.1f ms, finished by %s\n",
               static_cast<size_t>(done.prompt_tokens), done.tokens.size(), ttft_ms, tpot_ms,
               std::string(FinishReasonName(done.finish)).c_str());
  return 0;
}

}  // namespace

void AddGenerateCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = app->add_subcommand("generate", "Try a prompt: chat or raw, streamed");
  AddEngineFlags(command, &flags->engine);
  command->add_option("prompt", flags->prompt, "the prompt, or - for standard input")->required();
  command->add_option("-f,--format", flags->format, "KV format or plan (default int8)");
  command->add_option("--scales", flags->scales, "scale file of kvant calibrate (JSON)");
  command->add_option("--system", flags->system, "system message");
  command->add_flag("--raw", flags->raw, "no chat template");
  command->add_flag("--json", flags->json, "one JSON document on stdout");
  command->add_option("-n,--max-tokens", flags->max_tokens, "tokens at most (default 256)");
  command->add_option("--temperature", flags->sampling.temperature, "0: greedy (default)");
  command->add_option("--top-k", flags->sampling.top_k, "0: all");
  command->add_option("--top-p", flags->sampling.top_p, "(0, 1]");
  command->add_option("--min-p", flags->sampling.min_p, "[0, 1)");
  command->add_option("--repetition-penalty", flags->sampling.repetition_penalty, "1: none");
  command->add_option("--seed", flags->sampling.seed, "of the sampling");
  command->add_option("--stop", flags->stop, "stop strings");
  command->callback([flags, body] { *body = [flags] { return Generate(*flags); }; });
}

}  // namespace kvant
