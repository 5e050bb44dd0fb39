// The forward pass against Hugging Face transformers in float32: golden log-probabilities made by
// tests/golden/make_golden.py and make_tiny_models.py (format: tests/golden/golden_file.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/engine/engine.h"

namespace kvant {
namespace {

struct GoldenPosition {
  uint32_t position = 0;
  float rest_log_probability = 0;  // of all tokens beyond the top
  std::vector<uint32_t> top;
  std::vector<float> log_probability;
};

struct GoldenPrompt {
  std::vector<TokenId> tokens;
  std::vector<GoldenPosition> positions;
};

struct Golden {
  uint32_t vocabulary = 0;
  Digest model{};
  std::vector<GoldenPrompt> prompts;
};

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  template <typename T>
  T Read() {
    T value{};
    KVANT_CHECK(at_ + sizeof(T) <= bytes_.size());
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

Golden ReadGolden(const std::filesystem::path& path) {
  Reader reader(ReadWholeFile(path, 16 << 20));
  Golden golden;
  const auto magic = reader.Read<std::array<char, 8>>();
  KVANT_CHECK(std::memcmp(magic.data(), "KVGOLDEN", 8) == 0);
  KVANT_CHECK(reader.Read<uint32_t>() == 1);
  golden.vocabulary = reader.Read<uint32_t>();
  const auto top_k = reader.Read<uint32_t>();
  const auto prompts = reader.Read<uint32_t>();
  golden.model = reader.Read<Digest>();
  for (uint32_t p = 0; p < prompts; ++p) {
    GoldenPrompt prompt;
    const auto tokens = reader.Read<uint32_t>();
    const auto positions = reader.Read<uint32_t>();
    for (uint32_t i = 0; i < tokens; ++i) prompt.tokens.push_back(reader.Read<int32_t>());
    for (uint32_t i = 0; i < positions; ++i) {
      GoldenPosition position;
      position.position = reader.Read<uint32_t>();
      reader.Read<int32_t>();  // the next token
      reader.Read<float>();    // its log-probability
      reader.Read<float>();    // log-sum-exp
      position.rest_log_probability = reader.Read<float>();
      for (uint32_t k = 0; k < top_k; ++k) position.top.push_back(reader.Read<uint32_t>());
      for (uint32_t k = 0; k < top_k; ++k) position.log_probability.push_back(reader.Read<float>());
      prompt.positions.push_back(position);
    }
    golden.prompts.push_back(std::move(prompt));
  }
  return golden;
}

struct Comparison {
  uint64_t positions = 0;
  double kld = 0;  // sum
  uint64_t wrong_top1 = 0;
};

// KL divergence over the top tokens and the rest as one: a lower bound that is tight where the
// top tokens hold most of the probability.
void Compare(const GoldenPosition& golden, std::span<const float> logits, double margin,
             Comparison* result) {
  double maximum = logits[0];
  for (const float logit : logits) maximum = std::max<double>(maximum, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - maximum);
  const double log_sum = maximum + std::log(sum);
  double kld = 0;
  double top_probability = 0;
  for (size_t k = 0; k < golden.top.size(); ++k) {
    const double log_p = golden.log_probability[k];
    const double log_q = logits[golden.top[k]] - log_sum;
    kld += std::exp(log_p) * (log_p - log_q);
    top_probability += std::exp(log_q);
  }
  const double rest = 1 - top_probability;
  if (std::isfinite(golden.rest_log_probability) && rest > 1e-12) {
    const double log_p = golden.rest_log_probability;
    kld += std::exp(log_p) * (log_p - std::log(rest));
  }
  ++result->positions;
  result->kld += std::max(kld, 0.0);
  const bool decided = golden.log_probability[0] - golden.log_probability[1] > margin;
  if (decided && ArgMax(logits) != static_cast<TokenId>(golden.top[0])) ++result->wrong_top1;
}

// Prompts of up to max_tokens.
Comparison RunGolden(Engine* engine, const Golden& golden, const char* plan_text, double margin,
                     Pass pass, size_t max_tokens) {
  const PlanId plan = engine->AddPlan(MakeKvPlan(plan_text, engine->model().geometry));
  const size_t vocabulary = engine->model().config.vocabulary;
  Comparison result;
  for (const GoldenPrompt& prompt : golden.prompts) {
    if (prompt.tokens.size() > max_tokens) continue;
    const auto sequence = engine->StartScoring(plan, prompt.tokens.size());
    constexpr size_t kChunk = 64;
    std::vector<float> logits(kChunk * vocabulary);
    auto next = prompt.positions.begin();
    for (size_t first = 0; first < prompt.tokens.size(); first += kChunk) {
      const size_t count = std::min(kChunk, prompt.tokens.size() - first);
      const auto tokens = std::span(prompt.tokens).subspan(first, count);
      if (next == prompt.positions.end() || next->position >= first + count) {
        sequence->Skip(tokens, pass);
        continue;
      }
      sequence->Advance(tokens, pass, logits);
      for (; next != prompt.positions.end() && next->position < first + count; ++next) {
        Compare(*next, std::span(logits).subspan((next->position - first) * vocabulary, vocabulary),
                margin, &result);
      }
    }
  }
  return result;
}

void ExpectClose(const Comparison& comparison, double largest_kld, const std::string& what) {
  ASSERT_GT(comparison.positions, 0U) << what;
  const double kld = comparison.kld / static_cast<double>(comparison.positions);
  EXPECT_LE(kld, largest_kld) << what;
  EXPECT_EQ(comparison.wrong_top1, 0U) << what;
  std::printf("%s: mean KLD %.2g over %d positions\n", what.c_str(), kld,
              static_cast<int>(comparison.positions));
}

void CheckModel(const std::filesystem::path& model, const std::filesystem::path& golden_path) {
  const Golden golden = ReadGolden(golden_path);
  EngineOptions options;
  options.memory_bytes = 3ULL << 30;
  options.num_threads = 2;
  options.max_context = 2560;
  Engine engine(LoadModel(model), options);
  ASSERT_EQ(engine.model().digest, golden.model) << model << " is not the file of the golden";
  ASSERT_EQ(engine.model().config.vocabulary, golden.vocabulary);
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  ExpectClose(RunGolden(&engine, golden, "fp32", 0.05, Pass::kPrefill, kAll), 1e-5,
              model.filename().string() + ", prefill, float32 cache");
  ExpectClose(RunGolden(&engine, golden, "bf16", 0.5, Pass::kPrefill, kAll), 2e-3,
              model.filename().string() + ", prefill, bf16 cache");
  // Token by token, with 16-bit activations where the instruction set has integer products.
  ExpectClose(RunGolden(&engine, golden, "bf16", 0.5, Pass::kDecode, 700), 2e-3,
              model.filename().string() + ", decoding, bf16 cache");
}

std::filesystem::path GoldenFolder() {
  return std::filesystem::path(KVANT_SOURCE_DIR) / "tests" / "golden";
}

std::filesystem::path ModelsFolder() {
  const char* folder = std::getenv("KVANT_MODELS");
  return folder != nullptr ? std::filesystem::path(folder)
                           : std::filesystem::path(KVANT_SOURCE_DIR) / "models";
}

TEST(Golden, TinyModelsOfEveryKindMatchTransformers) {
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder() / "tiny")) {
    if (entry.path().extension() != ".gguf") continue;
    std::filesystem::path golden = entry.path();
    CheckModel(entry.path(), golden.replace_extension(".golden"));
    ++models;
  }
  EXPECT_GE(models, 15U);
}

TEST(Golden, Smollm2MatchesTransformers) {
  CheckModel(ModelsFolder() / "smollm2-135m.gguf", GoldenFolder() / "smollm2-135m.golden");
}

TEST(Golden, Gemma3MatchesTransformers) {
  CheckModel(ModelsFolder() / "gemma3-270m.gguf", GoldenFolder() / "gemma3-270m.golden");
}

TEST(GoldenSlow, Qwen25CoderMatchesTransformers) {
  CheckModel(ModelsFolder() / "qwen2.5-coder-0.5b.gguf",
             GoldenFolder() / "qwen2.5-coder-0.5b.golden");
}

TEST(GoldenSlow, Qwen25Coder1p5bMatchesTransformers) {
  CheckModel(ModelsFolder() / "qwen2.5-coder-1.5b.gguf",
             GoldenFolder() / "qwen2.5-coder-1.5b.golden");
}

}  // namespace
}  // namespace kvant
