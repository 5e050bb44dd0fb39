#include "kvant/kernel/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kvant/kernel/dequantize_reference.h"
#include "kvant/kernel/isa_fixture.h"
#include "kvant/kernel/packed_weights_fixture.h"

namespace kvant {
namespace {

// Bit-equal, or both NaN.
bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(Dequantize, AnyBytesGiveTheReferencesBits) {
  ForEachIsa([] {
    Random random(1);
    for (const WeightType type : kAllWeightTypes) {
      const uint64_t blocks = 2000;
      const uint64_t elements = blocks * WeightBlockElements(type);
      const std::vector<uint8_t> bytes = RandomBytes(blocks * WeightBlockBytes(type), &random);
      std::vector<float> expected(elements);
      std::vector<float> got(elements);
      DequantizeReference(type, bytes.data(), elements, expected.data());
      DequantizeRow(type, bytes.data(), elements, got.data());
      for (uint64_t i = 0; i < elements; ++i) {
        ASSERT_TRUE(SameBits(expected[i], got[i]))
            << WeightTypeName(type) << " weight " << i << ": " << got[i] << ", expected "
            << expected[i];
      }
    }
  });
}

TEST(Dequantize, EveryScaleOfEveryTypeGivesTheReferencesBits) {
  ForEachIsa([] {
    Random random(2);
    for (const WeightType type : kAllWeightTypes) {
      if (WeightBlockElements(type) == 1) continue;
      std::vector<uint8_t> block = RandomBytes(WeightBlockBytes(type), &random);
      const size_t scale_at = type == WeightType::kQ6_K ? 208 : 0;
      std::vector<float> expected(WeightBlockElements(type));
      std::vector<float> got(expected.size());
      for (uint32_t half = 0; half < 65536; half += 7) {
        const auto bits = static_cast<uint16_t>(half);
        std::memcpy(block.data() + scale_at, &bits, sizeof(bits));
        DequantizeReference(type, block.data(), expected.size(), expected.data());
        DequantizeRow(type, block.data(), got.size(), got.data());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(SameBits(expected[i], got[i]));
      }
    }
  });
}

TEST(Dequantize, UnpackedRowsOfAnyLength) {
  ForEachIsa([] {
    Random random(3);
    for (const WeightType type : {WeightType::kF32, WeightType::kF16, WeightType::kBF16}) {
      for (const uint64_t elements : {1U, 15U, 31U, 32U, 33U, 100U}) {
        const std::vector<uint8_t> bytes = RandomBytes(elements * WeightBlockBytes(type), &random);
        std::vector<float> expected(elements);
        std::vector<float> got(elements + 1, 7.0F);
        DequantizeReference(type, bytes.data(), elements, expected.data());
        DequantizeRow(type, bytes.data(), elements, got.data());
        for (uint64_t i = 0; i < elements; ++i) ASSERT_TRUE(SameBits(expected[i], got[i]));
        EXPECT_EQ(got[elements], 7.0F);
      }
    }
  });
}

}  // namespace
}  // namespace kvant
