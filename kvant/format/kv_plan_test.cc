#include "kvant/format/kv_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kvant/core/error.h"

namespace kvant {
namespace {

constexpr uint32_t kLayers = 6;
constexpr uint32_t kHeads = 2;
constexpr uint32_t kHeadDim = 64;

KvGeometry Geometry() {
  KvGeometry geometry;
  geometry.num_layers = kLayers;
  geometry.num_kv_heads = kHeads;
  geometry.head_dim = kHeadDim;
  geometry.sliding_window = {true, true, false, true, true, false};
  geometry.has_k_bias.assign(kLayers, true);
  return geometry;
}

std::shared_ptr<ScaleSet> Scales(Granularity granularity, Codec codec = Codec::kFp8E4m3) {
  auto scales = std::make_shared<ScaleSet>();
  scales->codec = codec;
  scales->granularity = granularity;
  scales->num_kv_heads = kHeads;
  scales->head_dim = kHeadDim;
  const size_t count = granularity == Granularity::kTensor ? 1
                       : granularity == Granularity::kHead ? kHeads
                                                           : kHeads * kHeadDim;
  scales->layers.assign(kLayers,
                        {std::vector<float>(count, 0.5F), std::vector<float>(count, 0.25F)});
  return scales;
}

ErrorCode CodeOfRefusal(const std::string& text, const KvGeometry& geometry,
                        std::shared_ptr<const ScaleSet> scales = nullptr) {
  try {
    MakeKvPlan(text, geometry, std::move(scales));
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "accepted " << text;
  return ErrorCode::kInternal;
}

std::vector<std::string> LayerTexts(const KvPlan& plan) {
  std::vector<std::string> texts;
  for (const KvFormat& format : plan.layers) texts.push_back(ToString(format));
  return texts;
}

TEST(KvPlan, SkippedLayersAreBf16) {
  EXPECT_EQ(LayerTexts(MakeKvPlan("int8,skip=0,2-3,5", Geometry())),
            (std::vector<std::string>{"bf16", "int8", "bf16", "bf16", "int8", "bf16"}));
  EXPECT_EQ(LayerTexts(MakeKvPlan("fp8_e4m3,skip=sliding_window,5", Geometry())),
            (std::vector<std::string>{"bf16", "bf16", "fp8_e4m3", "bf16", "bf16", "bf16"}));
  EXPECT_EQ(LayerTexts(MakeKvPlan("int8", Geometry())), std::vector<std::string>(6, "int8"));
}

TEST(KvPlan, SkippedLayersStayCentred) {
  EXPECT_EQ(LayerTexts(MakeKvPlan("int8+bias_removed,recent_tokens=64,skip=1-5", Geometry())),
            (std::vector<std::string>{"int8+bias_removed,recent_tokens=64", "bf16+bias_removed",
                                      "bf16+bias_removed", "bf16+bias_removed", "bf16+bias_removed",
                                      "bf16+bias_removed"}));
}

TEST(KvPlan, ThePlansNameIsWhatTheUserWrote) {
  EXPECT_EQ(MakeKvPlan("k=int8,v=int8,skip=0", Geometry()).name, "k=int8,v=int8,skip=0");
}

TEST(KvPlan, BadSkipsAreRefused) {
  for (const std::string& text :
       {std::string("int8,skip="), std::string("int8,skip=6"), std::string("int8,skip=3-1"),
        std::string("int8,skip=a"), std::string("int8,skip=0,,1"), std::string("int8,skip=-1"),
        std::string("int8,skip=0-"), std::string("int8,skip=0-6"), std::string("int8,skip=+1"),
        std::string("int8,skip=1,k=bf16"), std::string("int8,skip=1,skip=2"),
        std::string("int8,skip=99999999999999999999"), std::string("skip=1"),
        "int8,skip=0" + std::string(5000, '0')}) {
    EXPECT_EQ(CodeOfRefusal(text, Geometry()), ErrorCode::kUsage) << text;
  }
  KvGeometry full_attention = Geometry();
  full_attention.sliding_window.clear();
  EXPECT_EQ(CodeOfRefusal("int8,skip=sliding_window", full_attention), ErrorCode::kUsage);
}

TEST(KvPlan, AFormatThatDoesNotFitTheModelIsRefused) {
  KvGeometry geometry = Geometry();
  geometry.head_dim = 80;
  EXPECT_NO_THROW(MakeKvPlan("int4", geometry));
  EXPECT_EQ(CodeOfRefusal("q8_0", geometry), ErrorCode::kUsage);
  geometry.head_dim = 576;
  EXPECT_EQ(CodeOfRefusal("bf16", geometry), ErrorCode::kUsage);
}

TEST(KvPlan, AContradictoryGeometryIsRefused) {
  KvGeometry geometry = Geometry();
  geometry.sliding_window.assign(7, true);
  EXPECT_EQ(CodeOfRefusal("int8,skip=sliding_window", geometry), ErrorCode::kInvalidInput);
  geometry = Geometry();
  geometry.has_k_bias.assign(5, true);
  EXPECT_EQ(CodeOfRefusal("int8+bias_removed", geometry), ErrorCode::kInvalidInput);
  EXPECT_EQ(CodeOfRefusal("int8", KvGeometry()), ErrorCode::kInvalidInput);
}

TEST(KvPlan, BiasRemovalNeedsABiasOnEveryLayer) {
  KvGeometry geometry = Geometry();
  geometry.has_k_bias[3] = false;
  EXPECT_EQ(CodeOfRefusal("int8+bias_removed", geometry), ErrorCode::kUsage);
  EXPECT_EQ(CodeOfRefusal("int8+bias_removed,skip=3", geometry), ErrorCode::kUsage);
  geometry.has_k_bias.clear();
  EXPECT_EQ(CodeOfRefusal("bf16+bias_removed", geometry), ErrorCode::kUsage);
  EXPECT_NO_THROW(MakeKvPlan("int8", geometry));
}

TEST(KvPlan, AMissingScaleNeverBecomesOne) {
  for (const char* text : {"fp8_e4m3:static", "vllm_fp8", "k=bf16,v=int8:static:head"}) {
    EXPECT_EQ(CodeOfRefusal(text, Geometry()), ErrorCode::kUsage) << text;
  }
}

TEST(KvPlan, ScalesMustBeThoseOfThePlanAndTheModel) {
  const auto refused = [](const char* text, std::shared_ptr<ScaleSet> scales) {
    EXPECT_EQ(CodeOfRefusal(text, Geometry(), std::move(scales)), ErrorCode::kInvalidInput);
  };
  EXPECT_NO_THROW(MakeKvPlan("fp8_e4m3:static", Geometry(), Scales(Granularity::kTensor)));
  EXPECT_NO_THROW(
      MakeKvPlan("int8:static:channel", Geometry(), Scales(Granularity::kChannel, Codec::kInt8)));
  refused("fp8_e4m3:static", Scales(Granularity::kHead));
  refused("fp8_e4m3:static", Scales(Granularity::kTensor, Codec::kInt8));
  refused("k=fp8_e4m3:static,v=int8:static", Scales(Granularity::kTensor));
  auto scales = Scales(Granularity::kTensor);
  scales->layers.pop_back();
  refused("fp8_e4m3:static", scales);
  scales = Scales(Granularity::kTensor);
  scales->head_dim = 128;
  refused("fp8_e4m3:static", scales);
  scales = Scales(Granularity::kTensor);
  scales->layers[5].k[0] = -1.0F;
  refused("fp8_e4m3:static", scales);
}

TEST(KvPlan, ScalesThatNoLayerUsesAreNotPartOfThePlan) {
  EXPECT_EQ(MakeKvPlan("int8", Geometry(), Scales(Granularity::kTensor)).scales, nullptr);
  const KvPlan all_skipped =
      MakeKvPlan("fp8_e4m3:static,skip=0-5", Geometry(), Scales(Granularity::kTensor));
  EXPECT_EQ(all_skipped.scales, nullptr);
  EXPECT_EQ(PlanDigest(all_skipped), PlanDigest(MakeKvPlan("bf16", Geometry())));
}

TEST(KvPlan, TheDigestIsTheSameForEveryWayToSayThePlan) {
  const auto digest = [](const char* text) { return PlanDigest(MakeKvPlan(text, Geometry())); };
  EXPECT_EQ(digest("int8"), digest("k=int8,v=int8"));
  EXPECT_EQ(digest("int8,skip=0,1,2"), digest("int8,skip=2,0-1"));
  EXPECT_EQ(digest("int4+hadamard-hadamard"), digest("k=int4:channel:zp,v=int4:token_head:zp"));
}

TEST(KvPlan, TheDigestSeparatesWhateverDiffers) {
  std::set<Digest> digests;
  size_t plans = 0;
  for (const char* text : {"fp32",
                           "bf16",
                           "fp16",
                           "int8",
                           "int4",
                           "int2",
                           "q8_0",
                           "q4_0",
                           "fp8_e4m3",
                           "fp8_e5m2",
                           "fp8_per_token_head",
                           "int8_per_token_head",
                           "int4_per_token_head",
                           "fp8_e4m3:head",
                           "int8,skip=0",
                           "int8,skip=1",
                           "int8,skip=0-1",
                           "bf16,skip=0",
                           "int8+bias_removed",
                           "bf16+bias_removed",
                           "int4-hadamard",
                           "int4+hadamard",
                           "int8,sink_tokens=64",
                           "int8,recent_tokens=64",
                           "int8,q=fp8_e4m3",
                           "int8,p=fp8_e4m3",
                           "fp8_e4m3,write=sealed",
                           "k=int8:channel:zp:clip0.95,v=int8",
                           "k=int8:channel:zp:clip0.94,v=int8",
                           "k=int8:group64,v=int8:group64",
                           "k=int4,v=int8",
                           "k=int8,v=int4"}) {
    digests.insert(PlanDigest(MakeKvPlan(text, Geometry())));
    if (std::string(text) != "bf16,skip=0") ++plans;  // the same plan as bf16
  }
  KvGeometry deeper = Geometry();
  deeper.num_layers = 7;
  deeper.sliding_window.clear();
  deeper.has_k_bias.clear();
  digests.insert(PlanDigest(MakeKvPlan("int8", deeper)));
  EXPECT_EQ(digests.size(), plans + 1);
}

TEST(KvPlan, TheDigestCoversTheScales) {
  const auto digest = [](std::shared_ptr<ScaleSet> scales) {
    return PlanDigest(MakeKvPlan("fp8_e4m3:static", Geometry(), std::move(scales)));
  };
  const Digest before = digest(Scales(Granularity::kTensor));
  EXPECT_EQ(digest(Scales(Granularity::kTensor)), before);
  auto changed = Scales(Granularity::kTensor);
  changed->layers[3].v[0] = 0.125F;
  EXPECT_NE(digest(changed), before);
}

TEST(KvPlan, DescribesItself) {
  EXPECT_EQ(DescribePlan(MakeKvPlan("int8", Geometry())), "int8 on every layer");
  EXPECT_EQ(DescribePlan(MakeKvPlan("int8,skip=1", Geometry())),
            "int8 on layers 0,2-5\nbf16 on layer 1");
}

}  // namespace
}  // namespace kvant
