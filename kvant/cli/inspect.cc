// kvant inspect: a checkpoint's KV geometry, what each format costs, and where K and V are hard.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "kvant/calibrate/calibrate.h"
#include "kvant/cli/command.h"
#include "kvant/cli/text_input.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/json.h"
#include "kvant/experiment/text_split.h"

namespace kvant {

namespace {

struct InspectFlags {
  EngineFlags engine;
  std::vector<std::string> text;
  bool json = false;
};

constexpr const char* kFormats[] = {
    "fp32", "bf16", "fp8_e4m3", "int8_per_token_head", "int8", "q8_0", "int4_per_token_head",
    "int4", "q4_0", "int2"};

Json FormatTable(const Model& model) {
  Json table = Json::array();
  const auto bytes_of = [&](const std::string& text) {
    return SealedBytesPerToken(MakePlanLayout(MakeKvPlan(text, model.geometry), model.geometry,
                                              model.config.window_tokens));
  };
  const double bf16 = bytes_of("bf16");
  const auto& windows = model.config.window_tokens;
  const bool hybrid =
      std::any_of(windows.begin(), windows.end(), [](uint64_t w) { return w != 0; });
  for (const char* name : kFormats) {
    for (const char* skip : {"", ",skip=sliding_window"}) {
      const bool wide = std::string(name) == "fp32" || std::string(name) == "bf16";
      if (*skip != '\0' && (!hybrid || wide)) continue;
      const std::string text = std::string(name) + skip;
      try {
        const double bytes = bytes_of(text);
        table.push_back({{"format", text},
                         {"bytes_per_token_all_layers", bytes},
                         {"times_bf16", bf16 / bytes}});
      } catch (const Error&) {
        continue;  // the format does not fit this head_dim
      }
    }
  }
  return table;
}

// The channels of one layer that stand out: the largest magnitude over the layer's median one.
Json LayerStatistics(const KvStatistics& statistics, uint32_t layer, bool is_key) {
  const KvGeometry& g = statistics.geometry();
  std::vector<float> largest;
  struct Channel {
    float magnitude;
    double mean;
    uint32_t head, channel;
  };
  std::vector<Channel> channels;
  for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
    for (uint32_t channel = 0; channel < g.head_dim; ++channel) {
      const ChannelStatistics& s =
          is_key ? statistics.k(layer, head, channel) : statistics.v(layer, head, channel);
      largest.push_back(s.largest());
      channels.push_back({s.largest(), s.mean(), head, channel});
    }
  }
  std::nth_element(largest.begin(), largest.begin() + static_cast<ptrdiff_t>(largest.size() / 2),
                   largest.end());
  const float median = largest[largest.size() / 2];
  std::sort(channels.begin(), channels.end(),
            [](const Channel& a, const Channel& b) { return a.magnitude > b.magnitude; });
  Json outliers = Json::array();
  constexpr size_t kShown = 4;
  for (size_t i = 0; i < std::min(kShown, channels.size()); ++i) {
    outliers.push_back({{"head", channels[i].head},
                        {"channel", channels[i].channel},
                        {"absolute_maximum", channels[i].magnitude},
                        {"mean", channels[i].mean}});
  }
  return {{"absolute_maximum", channels.front().magnitude},
          {"median_channel_maximum", median},
          {"largest_channels", outliers}};
}

Json StatisticsOf(Engine* engine, const std::vector<std::string>& paths, uint64_t length) {
  const TextSplit text(*engine->model().tokenizer, ReadTexts(paths));
  const uint64_t usable = std::min(length, text.calibration_tokens());
  if (usable < kBlockTokens) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the first third of the text has {} tokens", text.calibration_tokens()),
                fmt::format("give enough for at least {}", kBlockTokens));
  }
  constexpr uint64_t kSequences = 4;
  const auto sequences =
      text.CalibrationWindows(std::min(kSequences, text.calibration_tokens() / usable), usable);
  ProgressLine progress("observing K and V");
  const KvStatistics statistics = ObserveSequences(
      engine, sequences, [&](uint64_t done, uint64_t total) { progress.Update(done, total); });
  Json layers = Json::array();
  for (uint32_t layer = 0; layer < statistics.geometry().num_layers; ++layer) {
    layers.push_back({{"layer", layer},
                      {"k", LayerStatistics(statistics, layer, true)},
                      {"v", LayerStatistics(statistics, layer, false)}});
  }
  return {
      {"tokens", statistics.tokens()}, {"non_finite", statistics.non_finite()}, {"layers", layers}};
}

void PrintText(const Json& d) {
  std::printf("%s (%s)\nsha256 %s\n", d["name"].get<std::string>().c_str(),
              d["architecture"].get<std::string>().c_str(),
              d["model_sha256"].get<std::string>().c_str());
  std::printf("%d layers (%d with a sliding window), %d query and %d KV heads of %d, context %d\n",
              d["layers"].get<int>(), d["sliding_window_layers"].get<int>(),
              d["query_heads"].get<int>(), d["kv_heads"].get<int>(), d["head_dim"].get<int>(),
              d["context_length"].get<int>());
  if (d["k_bias"].get<bool>()) {
    std::printf(
        "K has biases, at most %.0f: low-bit K needs int4/int8 (per channel), "
        "+bias_removed or +block_mean\n",
        d["largest_k_bias"].get<double>());
  }
  std::printf("\n%-38s %14s %8s\n", "format (all layers kept)", "bytes/token", "x bf16");
  for (const Json& row : d["formats"]) {
    std::printf("%-38s %14.1f %8.2f\n", row["format"].get<std::string>().c_str(),
                row["bytes_per_token_all_layers"].get<double>(), row["times_bf16"].get<double>());
  }
  if (!d.contains("statistics")) {
    std::printf("\nK and V statistics: add --text FILE…\n");
    return;
  }
  std::printf("\n%-6s %12s %12s %-22s %12s\n", "layer", "max |K|", "median ch.",
              "largest K channels", "max |V|");
  for (const Json& layer : d["statistics"]["layers"]) {
    std::string channels;
    for (const Json& c : layer["k"]["largest_channels"]) {
      channels += fmt::format("{}:{} ", c["head"].get<int>(), c["channel"].get<int>());
    }
    std::printf("%-6d %12.2f %12.2f %-22s %12.2f\n", layer["layer"].get<int>(),
                layer["k"]["absolute_maximum"].get<double>(),
                layer["k"]["median_channel_maximum"].get<double>(), channels.c_str(),
                layer["v"]["absolute_maximum"].get<double>());
  }
}

int Inspect(const InspectFlags& flags) {
  Model model = LoadModel(flags.engine.model);
  const ModelConfig config = model.config;
  float largest_bias = 0;
  bool has_bias = false;
  for (const LayerWeights& layer : model.weights.layers) {
    for (const float bias : layer.key_bias) {
      has_bias = true;
      largest_bias = std::max(largest_bias, std::fabs(bias));
    }
  }
  Json document = {{"name", config.name},
                   {"architecture", config.architecture},
                   {"model_sha256", Hex(model.digest)},
                   {"layers", config.num_layers},
                   {"sliding_window_layers",
                    std::count_if(config.window_tokens.begin(), config.window_tokens.end(),
                                  [](uint64_t w) { return w != 0; })},
                   {"query_heads", config.num_heads},
                   {"kv_heads", config.num_kv_heads},
                   {"head_dim", config.head_dim},
                   {"context_length", config.context_length},
                   {"k_bias", has_bias},
                   {"largest_k_bias", largest_bias},
                   {"query_key_norm", config.query_key_norm},
                   {"formats", FormatTable(model)}};
  if (!flags.text.empty()) {
    EngineOptions options = MakeEngineOptions(flags.engine);
    constexpr uint64_t kLength = 2048;
    options.max_batch = 1;
    options.max_context = kLength;
    Engine engine(std::move(model), options);
    document["statistics"] = StatisticsOf(&engine, flags.text, kLength);
  }
  if (flags.json) {
    std::printf("%s\n", document.dump(1).c_str());
  } else {
    PrintText(document);
  }
  return 0;
}

}  // namespace

void AddInspectCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app->add_subcommand(
      "inspect", "Show KV geometry, bytes per token in each format, and K/V outlier channels");
  AddEngineFlags(command, &flags->engine);
  command->add_option("--text", flags->text, "run the model over this text for K/V statistics");
  command->add_flag("--json", flags->json, "JSON on stdout");
  command->callback([flags, body] { *body = [flags] { return Inspect(*flags); }; });
}

}  // namespace kvant
