// DequantizeRow against the gguf Python package (make_golden.py).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kvant/kernel/dequantize.h"
#include "kvant/kernel/isa_fixture.h"

namespace kvant {
namespace {

struct GoldenType {
  WeightType type;
  std::vector<uint8_t> bytes;
  std::vector<float> weights;
};

std::vector<GoldenType> ReadGolden() {
  std::ifstream file(KVANT_GOLDEN_FILE, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  std::vector<GoldenType> types;
  size_t at = 0;
  const auto read = [&](void* to, size_t size) {
    ASSERT_LE(at + size, content.size());
    std::memcpy(to, content.data() + at, size);
    at += size;
  };
  while (at < content.size() && !testing::Test::HasFatalFailure()) {
    uint32_t header[3] = {};
    read(header, sizeof(header));
    const std::optional<WeightType> type = WeightTypeFromGgml(header[0]);
    EXPECT_TRUE(type.has_value()) << "ggml type " << header[0];
    if (!type) break;
    GoldenType golden{*type, std::vector<uint8_t>(header[1]), std::vector<float>(header[2])};
    read(golden.bytes.data(), golden.bytes.size());
    read(golden.weights.data(), golden.weights.size() * sizeof(float));
    types.push_back(std::move(golden));
  }
  return types;
}

TEST(PackedWeightsGolden, EveryTypeDecodesAsTheGgufPackageDoes) {
  const std::vector<GoldenType> types = ReadGolden();
  ASSERT_EQ(types.size(), 11U);
  ForEachIsa([&] {
    for (const GoldenType& golden : types) {
      std::vector<float> got(golden.weights.size());
      DequantizeRow(golden.type, golden.bytes.data(), got.size(), got.data());
      EXPECT_EQ(got, golden.weights) << WeightTypeName(golden.type);
    }
  });
}

}  // namespace
}  // namespace kvant
