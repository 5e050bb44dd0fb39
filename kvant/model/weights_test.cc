#include "kvant/model/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/model/gguf/gguf_builder.h"

namespace kvant {
namespace {

// A header that ReadModelConfig accepts: four layers, two heads of 16.
GgufBuilder Header(const std::string& architecture) {
  GgufBuilder builder;
  const std::vector<float> embedding(32 * 8);
  builder.String("general.architecture", architecture)
      .Uint32(architecture + ".block_count", 4)
      .Uint32(architecture + ".embedding_length", 32)
      .Uint32(architecture + ".feed_forward_length", 64)
      .Uint32(architecture + ".attention.head_count", 2)
      .Uint32(architecture + ".context_length", 128)
      .FloatTensor("token_embd.weight", {32, 8}, embedding);
  return builder;
}

ModelConfig ConfigOf(const GgufBuilder& builder) {
  return ReadModelConfig(GgufFile::FromBytes(builder.Build(), "model.gguf"));
}

TEST(ModelConfig, SlidingLayersComeFromThePatternsPeriod) {
  GgufBuilder builder = Header("gemma3");
  builder.Uint32("gemma3.attention.sliding_window", 24)
      .Uint32("gemma3.attention.sliding_window_pattern", 2);
  EXPECT_EQ(ConfigOf(builder).window_tokens, (std::vector<uint64_t>{24, 0, 24, 0}));
}

TEST(ModelConfig, SlidingLayersComeFromAFlagPerLayer) {
  GgufBuilder builder = Header("gemma3");
  builder.Uint32("gemma3.attention.sliding_window", 24)
      .Int32s("gemma3.attention.sliding_window_pattern", {1, 1, 0, 1});
  EXPECT_EQ(ConfigOf(builder).window_tokens, (std::vector<uint64_t>{24, 24, 0, 24}));
}

TEST(ModelConfig, AGemmaWithoutAWindowHasFullLayersOnly) {
  EXPECT_EQ(ConfigOf(Header("gemma3")).window_tokens, (std::vector<uint64_t>(4, 0)));
}

TEST(ModelConfig, The27BGemmaScalesQueriesByItsWidthPerHead) {
  GgufBuilder builder = Header("gemma3");
  builder.metadata[1].second = GgufBytes().Type(GgufType::kUint32).Number(uint32_t{62}).bytes();
  builder.Uint32("gemma3.attention.key_length", 64);
  EXPECT_FLOAT_EQ(ConfigOf(builder).softmax_scale, 1.0F / std::sqrt(16.0F));
  GgufBuilder smaller = Header("gemma3");
  smaller.Uint32("gemma3.attention.key_length", 64);
  EXPECT_FLOAT_EQ(ConfigOf(smaller).softmax_scale, 1.0F / std::sqrt(64.0F));
}

struct Refusal {
  const char* architecture;
  std::function<void(GgufBuilder*)> change;
  const char* said;
};

TEST(ModelConfig, RefusesWhatItCannotRunAndNamesIt) {
  const std::vector<Refusal> refusals = {
      {"mamba", [](GgufBuilder*) {}, "supported: llama, qwen2, qwen3, gemma3"},
      {"llama", [](GgufBuilder* b) { b->Uint32("llama.expert_count", 8); }, "mixture-of-experts"},
      {"llama", [](GgufBuilder* b) { b->Uint32("llama.attention.sliding_window", 24); },
       "sliding-window"},
      {"llama", [](GgufBuilder* b) { b->Uint32("llama.rope.dimension_count", 8); }, "partial"},
      {"llama", [](GgufBuilder* b) { b->Uint32("llama.attention.value_length", 32); },
       "different head_dim"},
      {"llama", [](GgufBuilder* b) { b->Uint32("llama.attention.head_count_kv", 3); },
       "do not divide"},
      {"llama", [](GgufBuilder* b) { b->String("llama.rope.scaling.type", "yarn"); }, "yarn"},
      {"llama", [](GgufBuilder* b) { b->Float32("llama.rope.freq_base", 0); }, "RoPE base"},
      {"gemma3", [](GgufBuilder* b) { b->Float32("gemma3.final_logit_softcapping", 30); },
       "final_logit_softcapping"},
      {"gemma3", [](GgufBuilder* b) { b->Float32("gemma3.attn_logit_softcapping", 50); },
       "attn_logit_softcapping"},
      {"gemma3",
       [](GgufBuilder* b) {
         b->Uint32("gemma3.attention.sliding_window", 24)
             .Int32s("gemma3.attention.sliding_window_pattern", {1, 0});
       },
       "2 entries for 4 layers"},
  };
  for (const Refusal& refusal : refusals) {
    GgufBuilder builder = Header(refusal.architecture);
    refusal.change(&builder);
    try {
      ConfigOf(builder);
      ADD_FAILURE() << "accepted: " << refusal.said;
    } catch (const Error& error) {
      const std::string text = std::string(error.what()) + " " + error.hint();
      EXPECT_NE(text.find(refusal.said), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace kvant
