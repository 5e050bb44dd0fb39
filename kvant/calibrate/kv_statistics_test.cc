#include "kvant/calibrate/kv_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {
namespace {

KvGeometry Geometry() {
  KvGeometry geometry;
  geometry.num_layers = 1;
  geometry.num_kv_heads = 2;
  geometry.head_dim = 4;
  return geometry;
}

TEST(ChannelStatistics, PercentilesAreTightUpperBounds) {
  Random random(1);
  ChannelStatistics statistics;
  std::vector<double> magnitudes;
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(random.Normal() * 3);
    statistics.Add(x);
    magnitudes.push_back(std::fabs(x));
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  for (const double percent : {50.0, 90.0, 99.0, 99.9}) {
    const double exact = magnitudes[static_cast<size_t>(percent / 100 * 20000) - 1];
    EXPECT_GE(statistics.Percentile(percent), exact * 0.999);
    EXPECT_LE(statistics.Percentile(percent), exact * 1.0906);
  }
  EXPECT_EQ(statistics.Percentile(100), static_cast<float>(magnitudes.back()));
}

TEST(KvStatistics, ScalesCoverTheirGroup) {
  KvStatistics statistics(Geometry());
  // Two tokens; K of head 1 channel 2 is the outlier; V is constant.
  const std::vector<float> k = {1, -2, 3, 0, 5, 6, -448, 8, 0.5, 1, 1, 0, 1, 1, 1, 1};
  const std::vector<float> v(16, -0.5F);
  statistics.Observe(0, 0, 2, nullptr, k.data(), v.data());
  const ScaleSet tensor =
      ScalesFromStatistics(statistics, Codec::kFp8E4m3, Granularity::kTensor, 100);
  EXPECT_FLOAT_EQ(tensor.layers[0].k[0], 1.0F);
  EXPECT_FLOAT_EQ(tensor.layers[0].v[0], 0.5F / 448);
  const ScaleSet head = ScalesFromStatistics(statistics, Codec::kInt8, Granularity::kHead, 100);
  EXPECT_EQ(head.layers[0].k, (std::vector<float>{3.0F / 127, 448.0F / 127}));
  const ScaleSet channel =
      ScalesFromStatistics(statistics, Codec::kInt8, Granularity::kChannel, 100);
  ASSERT_EQ(channel.layers[0].k.size(), 8U);
  EXPECT_FLOAT_EQ(channel.layers[0].k[6], 448.0F / 127);
  EXPECT_FLOAT_EQ(channel.layers[0].k[3], 1.0F / 127) << "an all-zero channel has a usable scale";
}

TEST(KvStatistics, NonFiniteValuesAreCountedAndLeftOut) {
  KvStatistics statistics(Geometry());
  std::vector<float> k(8, 1.0F);
  k[0] = std::numeric_limits<float>::infinity();
  k[1] = std::numeric_limits<float>::quiet_NaN();
  statistics.Observe(0, 0, 1, nullptr, k.data(), std::vector<float>(8, 1.0F).data());
  EXPECT_EQ(statistics.non_finite(), 2U);
  EXPECT_THROW(
      ScalesFromStatistics(KvStatistics(Geometry()), Codec::kInt8, Granularity::kHead, 100), Error);
}

}  // namespace
}  // namespace kvant
