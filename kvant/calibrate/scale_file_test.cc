#include "kvant/calibrate/scale_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "kvant/calibrate/safetensors.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/json.h"

namespace kvant {
namespace {

constexpr const char* kDigest = "aa11";

KvGeometry Geometry() {
  KvGeometry geometry;
  geometry.num_layers = 2;
  geometry.num_kv_heads = 3;
  geometry.head_dim = 64;
  return geometry;
}

CalibratedScales Example(Granularity granularity) {
  CalibratedScales calibrated;
  calibrated.scales.granularity = granularity;
  calibrated.scales.num_kv_heads = 3;
  calibrated.scales.head_dim = 64;
  const size_t count = granularity == Granularity::kTensor ? 1
                       : granularity == Granularity::kHead ? 3
                                                           : 192;
  for (float layer : {1.0F, 2.0F}) {
    LayerScales scales;
    for (size_t i = 0; i < count; ++i) {
      scales.k.push_back(layer * 0.01F + static_cast<float>(i) * 0.001F);
      scales.v.push_back(layer * 0.02F);
    }
    calibrated.scales.layers.push_back(scales);
  }
  calibrated.provenance = {kDigest, "tiny", "bb22", 4096, {2048, 2048}, 99.9};
  return calibrated;
}

std::filesystem::path Prefix() {
  return std::filesystem::path(testing::TempDir()) / ("scales." + std::to_string(::getpid()));
}

TEST(ScaleFile, WhatIsWrittenIsReadBack) {
  for (const Granularity granularity :
       {Granularity::kTensor, Granularity::kHead, Granularity::kChannel}) {
    const CalibratedScales example = Example(granularity);
    WriteScaleFiles(Prefix(), example);
    const std::string json = Prefix().string() + ".json";
    const CalibratedScales read = ReadScaleFile(json, Geometry(), kDigest);
    EXPECT_EQ(read.scales, example.scales);
    EXPECT_EQ(read.provenance.sequence_lengths, example.provenance.sequence_lengths);
    EXPECT_EQ(read.provenance.percentile, 99.9);
    const std::string bytes = ReadWholeFile(Prefix().string() + ".safetensors", 1 << 20);
    EXPECT_EQ(ParseCompressedTensorsScales(bytes, "s", Geometry()), example.scales);
    EXPECT_EQ(ParseSafetensors(bytes, "s").tensors.at("model.layers.1.self_attn.k_scale").shape,
              granularity == Granularity::kTensor ? std::vector<uint64_t>({1})
              : granularity == Granularity::kHead ? std::vector<uint64_t>({3, 1, 1})
                                                  : std::vector<uint64_t>({3, 1, 64}));
    std::filesystem::remove(json);
    std::filesystem::remove(Prefix().string() + ".safetensors");
  }
}

TEST(ScaleFile, AnotherModelsScalesAreRefused) {
  WriteScaleFiles(Prefix(), Example(Granularity::kHead));
  const std::string json = Prefix().string() + ".json";
  EXPECT_THROW(ReadScaleFile(json, Geometry(), "cc33"), Error);
  KvGeometry other = Geometry();
  other.num_layers = 3;
  EXPECT_THROW(ReadScaleFile(json, other, kDigest), Error);
  other = Geometry();
  other.head_dim = 128;
  EXPECT_THROW(ReadScaleFile(json, other, kDigest), Error);
  std::filesystem::remove(json);
  std::filesystem::remove(Prefix().string() + ".safetensors");
}

TEST(ScaleFile, DamagedScalesAreRefused) {
  WriteScaleFiles(Prefix(), Example(Granularity::kHead));
  const std::string text = ReadWholeFile(Prefix().string() + ".json", 1 << 20);
  const auto refused = [&](const std::function<void(Json&)>& damage) {
    Json document = Json::parse(text);
    damage(document);
    EXPECT_THROW(ParseScaleJson(document.dump(), "test"), Error) << document.dump();
  };
  refused([](Json& d) { d["layers"][0]["k"][1] = 0; });
  refused([](Json& d) { d["layers"][0]["k"][1] = -1; });
  refused([](Json& d) { d["layers"][0]["k"][1] = 1e38; });
  refused([](Json& d) { d["layers"][0]["k"][1] = "1"; });
  refused([](Json& d) { d["layers"][0]["k"] = Json::array(); });
  refused([](Json& d) { d["layers"][1].erase("v"); });
  refused([](Json& d) { d["layers"][0]["k"].push_back(1.0); });
  refused([](Json& d) { d["codec"] = "fp4"; });
  refused([](Json& d) { d["version"] = 2; });
  refused([](Json& d) { d["num_kv_heads"] = 0; });
  refused([](Json& d) { d.erase("model_sha256"); });
  EXPECT_THROW(ParseScaleJson("[]", "test"), Error);
  CalibratedScales bad = Example(Granularity::kTensor);
  bad.scales.layers[0].v[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(WriteScaleFiles(Prefix(), bad), Error);
  std::filesystem::remove(Prefix().string() + ".json");
  std::filesystem::remove(Prefix().string() + ".safetensors");
}

std::string Safetensors(const std::string& header, const std::string& data) {
  std::string out(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(out.data(), &size, 8);
  return out + header + data;
}

TEST(Safetensors, HostileFilesAreRefused) {
  const std::string good =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_EQ(ParseSafetensors(Safetensors(good, std::string(8, '\0')), "t").tensors.size(), 2U);
  const auto refused = [](const std::string& bytes) {
    EXPECT_THROW(ParseSafetensors(bytes, "t"), Error) << bytes;
  };
  refused("");
  refused(std::string(8, '\xff') + "{}");
  refused(Safetensors(good, std::string(7, '\0')));
  refused(Safetensors(good, std::string(9, '\0')));
  refused(Safetensors("[]", ""));
  refused(Safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "0000"));
  refused(Safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "00000000"));
  refused(Safetensors(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
      "000000"));
  refused(Safetensors(
      R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "0000"));
  refused(Safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "0000"));
  refused(Safetensors(R"({"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "00000000"));
  refused(Safetensors(R"({"a":1})", ""));
  refused(Safetensors(R"({"__metadata__":{"x":1}})", ""));
  refused(Safetensors(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      "0000"));
}

TEST(Safetensors, AMissingScaleIsNotOne) {
  SafetensorsFile file;
  file.tensors["model.layers.0.self_attn.k_scale"] = {{1}, {0.5F}};
  file.tensors["model.layers.0.self_attn.v_scale"] = {{1}, {0.5F}};
  file.tensors["model.layers.1.self_attn.k_scale"] = {{1}, {0.5F}};
  EXPECT_THROW(ParseCompressedTensorsScales(SerializeSafetensors(file), "t", Geometry()), Error);
}

}  // namespace
}  // namespace kvant
