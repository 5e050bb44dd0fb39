// kvant calibrate: scales from the user's own text.
#include "kvant/calibrate/calibrate.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "kvant/cli/command.h"
#include "kvant/cli/text_input.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/json.h"
#include "kvant/experiment/text_split.h"

namespace kvant {

namespace {

struct CalibrateFlags {
  EngineFlags engine;
  std::vector<std::string> text;
  std::string format = "fp8_e4m3";
  std::string granularity = "tensor";
  double percentile = 100;
  std::string length = "2K";
  size_t sequences = 8;
  std::string out;
  bool json = false;
};

CalibrationOptions OptionsOf(const CalibrateFlags& flags) {
  CalibrationOptions options;
  options.codec = ParseKvFormat(flags.format).k.codec;
  if (!HasStaticScales(options.codec)) {
    throw Error(ErrorCode::kUsage, fmt::format("{} has no static scales", flags.format),
                "they exist for fp8_e4m3, fp8_e5m2, int8 and int4");
  }
  options.percentile = flags.percentile;
  if (flags.granularity == "tensor") {
    options.granularity = Granularity::kTensor;
  } else if (flags.granularity == "head") {
    options.granularity = Granularity::kHead;
  } else {
    options.granularity = Granularity::kChannel;
  }
  return options;
}

int RunCalibrate(const CalibrateFlags& flags) {
  CalibrationOptions calibration = OptionsOf(flags);
  CheckWritable(flags.out + ".json");
  const std::vector<std::string> texts = ReadTexts(flags.text);
  const uint64_t length = ParseTokens(flags.length);
  EngineOptions options = MakeEngineOptions(flags.engine);
  options.max_batch = 1;
  options.max_context = std::max<uint64_t>(length, 64);
  Engine engine(LoadModel(flags.engine.model), options);
  // The same split as an experiment's, so that it can evaluate on the rest of the same text.
  const TextSplit text(*engine.model().tokenizer, texts);
  const uint64_t count = std::min<uint64_t>(flags.sequences, text.calibration_tokens() / length);
  if (count == 0) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the first third of the text, which is for calibration, has {} tokens: "
                            "no sequence of {}",
                            text.calibration_tokens(), length),
                "give more text or a smaller --length");
  }
  const auto sequences = text.CalibrationWindows(count, length);
  calibration.text_digest = text.CalibrationDigest();
  CalibratedScales scales;
  {
    ProgressLine progress("calibrating");
    scales = Calibrate(&engine, sequences, calibration,
                       [&](uint64_t done, uint64_t total) { progress.Update(done, total); });
  }
  WriteScaleFiles(flags.out, scales);
  const Json document = {{"json", flags.out + ".json"},
                         {"safetensors", flags.out + ".safetensors"},
                         {"tokens", scales.provenance.tokens},
                         {"sequences", sequences.size()},
                         {"scales_sha256", Hex(ScaleSetDigest(scales.scales))}};
  if (flags.json) {
    std::printf("%s\n", document.dump(1).c_str());
  } else {
    std::printf("%s.json and %s.safetensors: %s scales per %s from %zu sequences of %s tokens\n",
                flags.out.c_str(), flags.out.c_str(), flags.format.c_str(),
                flags.granularity.c_str(), sequences.size(), FormatTokens(length).c_str());
    std::printf("next: kvant experiment -m %s --group calibrated=%s:static%s --scales %s.json\n",
                flags.engine.model.c_str(), flags.format.c_str(),
                flags.granularity == "tensor" ? "" : (":" + flags.granularity).c_str(),
                flags.out.c_str());
  }
  return 0;
}

}  // namespace

void AddCalibrateCommand(CLI::App* app, CommandBody* body) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command =
      app->add_subcommand("calibrate",
                          "Find static K and V scales from your own text\n\nExample:\n"
                          "  kvant calibrate -m model.gguf --text docs/ --length 8K -o scales");
  AddEngineFlags(command, &flags->engine);
  command->add_option("--text", flags->text, "files or folders: .txt, .md, .rst, chats as .jsonl")
      ->required();
  command->add_option("-f,--format", flags->format, "fp8_e4m3 (default), fp8_e5m2, int8 or int4");
  command
      ->add_option("-g,--granularity", flags->granularity,
                   "tensor (default), head, or channel, which vLLM has not")
      ->check(CLI::IsMember({"tensor", "head", "channel"}));
  command
      ->add_option("--percentile", flags->percentile,
                   "of the magnitudes that the scale covers (default 100: the maximum)")
      ->check(CLI::Range(1.0, 100.0));
  command->add_option("--length", flags->length,
                      "tokens per sequence: as long as you serve (default 2K)");
  command->add_option("--sequences", flags->sequences,
                      "at most (default 8), from the first third of the text");
  command->add_option("-o,--out", flags->out, "prefix of the two files written")->required();
  command->add_flag("--json", flags->json, "JSON on stdout");
  command->callback([flags, body] { *body = [flags] { return RunCalibrate(*flags); }; });
}

}  // namespace kvant
