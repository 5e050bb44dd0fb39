#include "kvant/experiment/experiment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/engine/tiny_model.h"
#include "kvant/experiment/divergence_run.h"
#include "kvant/experiment/text_split.h"

namespace kvant {
namespace {

std::string RandomText(size_t length) {
  Random random(5);
  std::string text(length, ' ');
  for (char& c : text) c = static_cast<char>('a' + random.Below(26));
  return text;
}

ExperimentConfig SmallConfig(const std::filesystem::path& out) {
  ExperimentConfig config;
  config.sizes.buckets = {128, 192};
  config.sizes.documents = 2;
  config.sizes.free_runs = 2;
  config.sizes.free_run_tokens = 8;
  config.sizes.decode_check_tokens = 8;
  config.sizes.calibration_sequences = 2;
  config.groups = {{"bf16", "bf16", GroupRole::kBaseline},
                   {"fp8", "fp8_e4m3:static", GroupRole::kGroup},
                   {"int8", "int8", GroupRole::kCandidate}};
  config.texts = {RandomText(6000)};
  config.tasks.needles = false;
  config.tasks.speed = false;
  config.out = out;
  return config;
}

class ExperimentTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("experiment." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<Engine> MakeEngine() {
    EngineOptions options;
    options.memory_bytes = 256ULL << 20;
    options.max_context = 512;
    return std::make_unique<Engine>(TinyModelBuilder(TinyShape()).Build(), options);
  }

  std::filesystem::path folder_;
};

// Everything that was stored, without what a clock decides.
std::vector<std::string> Contents(const Store& store, int64_t run) {
  std::vector<std::string> lines;
  for (const StoredSample& s : store.Samples(run, "")) {
    if (s.kind == "memory" || s.kind == "calibration") continue;
    lines.push_back(s.key + s.payload.dump() + std::string(s.values.begin(), s.values.end()));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST_F(ExperimentTest, AStoppedRunEndsWithTheSameSamples) {
  const ExperimentConfig config = SmallConfig(folder_);
  std::vector<std::string> whole;
  {
    Store store(folder_ / "whole.db");
    const auto engine = MakeEngine();
    whole = Contents(store, RunExperiment(config, engine.get(), &store, nullptr, {}));
  }
  Store store(folder_ / "pieces.db");
  int stops = 0;
  int64_t run = 0;
  for (uint64_t after = 1; run == 0; after += 3) {
    const auto engine = MakeEngine();
    std::atomic<bool> stop = false;
    uint64_t steps = 0;
    try {
      run = RunExperiment(config, engine.get(), &store, &stop,
                          [&](const ExperimentProgress&) { stop = ++steps >= after; });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
      ++stops;
    }
    ASSERT_LT(stops, 100);
  }
  EXPECT_GT(stops, 1);
  EXPECT_EQ(Contents(store, run), whole);
}

TEST_F(ExperimentTest, PreflightFindsWhatIsMissing) {
  const auto engine = MakeEngine();
  ExperimentConfig config = SmallConfig(folder_);
  const Preflight preflight = CheckExperiment(config, engine.get());
  EXPECT_GT(preflight.work.scored, 0U);
  EXPECT_GT(preflight.speed.prefilled, 0);
  EXPECT_GT(preflight.speed.decoded, 0);
  config.texts = {"too short"};
  EXPECT_THROW(CheckExperiment(config, engine.get()), Error);
  config = SmallConfig(folder_);
  config.groups[2].plan = "int8+bias_removed";
  EXPECT_THROW(CheckExperiment(config, engine.get()), Error) << "the model has no K bias";
}

TEST_F(ExperimentTest, CalibrationAndEvaluationTextNeverOverlap) {
  const auto engine = MakeEngine();
  const TextSplit text(*engine->model().tokenizer, {RandomText(3000)});
  // Windows of random letters are unique, so an overlap would show as a common run.
  std::set<std::vector<TokenId>> calibration;
  for (const auto& window : text.CalibrationWindows(4, 200)) {
    for (size_t i = 0; i + 12 <= window.size(); ++i) {
      calibration.insert({window.begin() + static_cast<ptrdiff_t>(i),
                          window.begin() + static_cast<ptrdiff_t>(i + 12)});
    }
  }
  for (const auto& window : text.EvaluationWindows(8, 200)) {
    for (size_t i = 0; i + 12 <= window.size(); ++i) {
      EXPECT_FALSE(calibration.contains({window.begin() + static_cast<ptrdiff_t>(i),
                                         window.begin() + static_cast<ptrdiff_t>(i + 12)}));
    }
  }
  EXPECT_THROW(text.EvaluationWindows(100, 200), Error);
}

TEST(DivergenceSamples, PackAndUnpack) {
  std::vector<PositionDivergence> positions(3);
  positions[1] = {0.5F, -1, -2, true, false};
  positions[2] = {0, 0, 0, false, true};
  const auto back = UnpackPositions(PackPositions(positions));
  ASSERT_EQ(back.size(), 3U);
  EXPECT_EQ(back[1].kld, 0.5F);
  EXPECT_TRUE(back[1].same_top1);
  EXPECT_TRUE(back[2].non_finite);
  std::vector<uint8_t> damaged = PackPositions(positions);
  damaged.pop_back();
  EXPECT_THROW(UnpackPositions(damaged), Error);
}

TEST(ExperimentConfig, OnlyKnownPresets) {
  EXPECT_EQ(PresetSizes("standard").buckets.back(), 8192U);
  EXPECT_THROW(PresetSizes("huge"), Error);
}

}  // namespace
}  // namespace kvant
