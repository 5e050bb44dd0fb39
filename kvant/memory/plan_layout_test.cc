#include "kvant/memory/plan_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvant {
namespace {

KvGeometry Geometry(uint32_t layers, uint32_t heads, uint32_t head_dim) {
  KvGeometry geometry;
  geometry.num_layers = layers;
  geometry.num_kv_heads = heads;
  geometry.head_dim = head_dim;
  geometry.sliding_window.assign(layers, false);
  geometry.has_k_bias.assign(layers, false);
  return geometry;
}

TEST(PlanLayout, BytesPerTokenAreTheFormatsBits) {
  // SmolLM2-135M: 30 layers, 3 KV heads of 64: 23,040 bytes in bf16, 8.5 and 4.5 bits of 16 below.
  const KvGeometry geometry = Geometry(30, 3, 64);
  const std::vector<uint64_t> windows(30, 0);
  const auto bytes = [&](const char* text) {
    return SealedBytesPerToken(MakePlanLayout(MakeKvPlan(text, geometry), geometry, windows));
  };
  EXPECT_DOUBLE_EQ(bytes("bf16"), 23040);
  EXPECT_DOUBLE_EQ(bytes("fp32"), 46080);
  EXPECT_DOUBLE_EQ(bytes("fp8_e4m3"), 11520);
  EXPECT_DOUBLE_EQ(bytes("int8"), 23040 * 8.5 / 16);
  EXPECT_DOUBLE_EQ(bytes("int4"), 23040 * 4.5 / 16);
}

TEST(PlanLayout, LayersShareBlocksOnlyIfTheyKeepTheSameTokensTheSameWay) {
  KvGeometry geometry = Geometry(6, 1, 256);
  std::vector<uint64_t> windows = {512, 512, 512, 512, 512, 0};
  for (size_t i = 0; i < 6; ++i) geometry.sliding_window[i] = windows[i] != 0;
  const PlanLayout all = MakePlanLayout(MakeKvPlan("int8", geometry), geometry, windows);
  ASSERT_EQ(all.cache->groups.size(), 2U);
  EXPECT_EQ(all.cache->groups[0].layers.size(), 5U);
  EXPECT_EQ(all.group[5], 1U);
  EXPECT_FALSE(all.cache->groups[0].open_is_sealed);

  const PlanLayout skipped =
      MakePlanLayout(MakeKvPlan("int8,skip=sliding_window", geometry), geometry, windows);
  EXPECT_TRUE(skipped.cache->groups[0].open_is_sealed);
  EXPECT_GT(skipped.cache->groups[0].sealed_block_bytes, all.cache->groups[0].sealed_block_bytes);

  // An append format leaves its skipped layers in blocks of their own.
  const PlanLayout append = MakePlanLayout(MakeKvPlan("fp8_e4m3,skip=0", geometry), geometry,
                                           std::vector<uint64_t>(6, 0));
  EXPECT_EQ(append.cache->groups.size(), 2U);
}

TEST(PlanLayout, OffsetsDoNotOverlap) {
  const KvGeometry geometry = Geometry(4, 2, 64);
  const PlanLayout layout =
      MakePlanLayout(MakeKvPlan("int4,skip=1-2", geometry), geometry, std::vector<uint64_t>(4, 0));
  uint64_t sealed_end = 0;
  for (size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(layout.sealed_offset[layer], sealed_end);
    sealed_end += layout.layers[layer].sealed_bytes;
  }
  EXPECT_EQ(layout.cache->groups[0].sealed_block_bytes, sealed_end);
}

}  // namespace
}  // namespace kvant
