#include "kvant/format/scale_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvant/core/error.h"

namespace kvant {
namespace {

ScaleSet Example() {
  ScaleSet scales;
  scales.granularity = Granularity::kHead;
  scales.num_kv_heads = 2;
  scales.head_dim = 64;
  scales.layers.assign(3, {{0.5F, 0.25F}, {1.0F, 2.0F}});
  return scales;
}

TEST(ScaleSet, OnlyUsableScalesPass) {
  EXPECT_NO_THROW(ValidateScaleSet(Example(), "t"));
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 1e30F, 1e-30F}) {
    ScaleSet scales = Example();
    scales.layers[1].v[1] = bad;
    try {
      ValidateScaleSet(scales, "file.json");
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("layer 1"), std::string::npos) << error.message();
    }
  }
  ScaleSet short_layer = Example();
  short_layer.layers[2].k.pop_back();
  EXPECT_THROW(ValidateScaleSet(short_layer, "t"), Error);
  EXPECT_THROW(ValidateScaleSet(ScaleSet(), "t"), Error);
}

TEST(ScaleSet, TheDigestCoversEveryValue) {
  const Digest digest = ScaleSetDigest(Example());
  ScaleSet changed = Example();
  changed.layers[2].k[1] = 0.2500001F;
  EXPECT_NE(ScaleSetDigest(changed), digest);
  changed = Example();
  changed.codec = Codec::kInt8;
  EXPECT_NE(ScaleSetDigest(changed), digest);
}

}  // namespace
}  // namespace kvant
