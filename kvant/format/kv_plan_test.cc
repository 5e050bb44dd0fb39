#include "kvant/format/kv_plan.h"

#include <gtest/gtest.h>

#include <memory>

#include "kvant/core/error.h"

namespace kvant {
namespace {

KvGeometry Geometry() {
  KvGeometry geometry;
  geometry.num_layers = 6;
  geometry.num_kv_heads = 2;
  geometry.head_dim = 64;
  geometry.sliding_window = {true, true, false, true, true, false};
  geometry.has_k_bias.assign(6, true);
  return geometry;
}

std::shared_ptr<ScaleSet> Scales(Granularity granularity, Codec codec = Codec::kFp8E4m3) {
  auto scales = std::make_shared<ScaleSet>();
  scales->codec = codec;
  scales->granularity = granularity;
  scales->num_kv_heads = 2;
  scales->head_dim = 64;
  const size_t count = granularity == Granularity::kTensor ? 1
                       : granularity == Granularity::kHead ? 2
                                                           : 128;
  scales->layers.assign(6, {std::vector<float>(count, 0.5F), std::vector<float>(count, 0.25F)});
  return scales;
}

TEST(KvPlan, SkippedLayersAreBf16) {
  const KvPlan plan = MakeKvPlan("int8,skip=0,2-3", Geometry());
  for (size_t layer = 0; layer < 6; ++layer) {
    const bool skipped = layer == 0 || layer == 2 || layer == 3;
    EXPECT_EQ(ToString(plan.layer(layer)), skipped ? "bf16" : "int8") << layer;
  }
  const KvPlan windows = MakeKvPlan("int8+bias_removed,skip=sliding_window", Geometry());
  EXPECT_EQ(ToString(windows.layer(0)), "bf16+bias_removed");
  EXPECT_EQ(ToString(windows.layer(2)), "int8+bias_removed");
}

TEST(KvPlan, BadSkipsAreRefused) {
  for (const char* text : {"int8,skip=", "int8,skip=6", "int8,skip=3-1", "int8,skip=a",
                           "int8,skip=0,,1", "int8,skip=-1", "int8,skip=0-", "int8,skip=1,k=bf16"}) {
    EXPECT_THROW(MakeKvPlan(text, Geometry()), Error) << text;
  }
  KvGeometry full = Geometry();
  full.sliding_window.assign(6, false);
  EXPECT_THROW(MakeKvPlan("int8,skip=sliding_window", full), Error);
}

TEST(KvPlan, StaticScalesNeverDefault) {
  EXPECT_THROW(MakeKvPlan("fp8_e4m3:static", Geometry()), Error);
  EXPECT_NO_THROW(MakeKvPlan("fp8_e4m3:static", Geometry(), Scales(Granularity::kTensor)));
  EXPECT_THROW(MakeKvPlan("fp8_e4m3:static", Geometry(), Scales(Granularity::kHead)), Error);
  EXPECT_THROW(MakeKvPlan("fp8_e4m3:static", Geometry(),
                          Scales(Granularity::kTensor, Codec::kInt8)),
               Error);
  auto short_of_a_layer = Scales(Granularity::kTensor);
  short_of_a_layer->layers.pop_back();
  EXPECT_THROW(MakeKvPlan("fp8_e4m3:static", Geometry(), short_of_a_layer), Error);
  EXPECT_EQ(MakeKvPlan("int8", Geometry(), Scales(Granularity::kTensor)).scales, nullptr)
      << "scales that nobody uses are not part of a plan";
}

TEST(KvPlan, BiasRemovalNeedsABias) {
  KvGeometry geometry = Geometry();
  geometry.has_k_bias.assign(6, false);
  EXPECT_THROW(MakeKvPlan("int8+bias_removed", geometry), Error);
}

TEST(KvPlan, TheDigestSeparatesWhatDiffers) {
  const KvGeometry geometry = Geometry();
  const auto digest = [&](const char* text) { return PlanDigest(MakeKvPlan(text, geometry)); };
  EXPECT_EQ(digest("int8"), digest("k=int8,v=int8"));
  EXPECT_NE(digest("int8"), digest("int8,skip=0"));
  EXPECT_NE(digest("int8"), digest("int8+bias_removed"));
  EXPECT_NE(digest("int4"), digest("int4-hadamard"));
  auto scales = Scales(Granularity::kTensor);
  const Digest before = PlanDigest(MakeKvPlan("fp8_e4m3:static", geometry, scales));
  auto other = Scales(Granularity::kTensor);
  other->layers[3].v[0] = 0.125F;
  EXPECT_NE(PlanDigest(MakeKvPlan("fp8_e4m3:static", geometry, other)), before);
}

TEST(KvPlan, DescribesItself) {
  EXPECT_EQ(DescribePlan(MakeKvPlan("int8", Geometry())), "int8 on every layer");
  EXPECT_EQ(DescribePlan(MakeKvPlan("int8,skip=1", Geometry())),
            "int8 on layers 0,2-5\nbf16 on layer 1");
}

}  // namespace
}  // namespace kvant
