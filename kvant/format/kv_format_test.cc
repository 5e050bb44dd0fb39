#include "kvant/format/kv_format.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {
namespace {

const std::vector<std::string> kNames = {
    "fp32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "int2", "fp8_per_token_head",
    "int8_per_token_head", "int4_per_token_head", "q8_0", "q4_0", "vllm_fp8"};

TEST(KvFormat, EveryNamePrintsAsItself) {
  for (const std::string& name : kNames) EXPECT_EQ(ToString(ParseKvFormat(name)), name);
}

TEST(KvFormat, VariantsPrintBackToWhatTheyMean) {
  for (const char* text :
       {"int8+bias_removed", "int4-hadamard", "int8+hadamard", "bf16+bias_removed",
        "fp8_e4m3:static", "fp8_e4m3:static:head", "fp8_e4m3:static:channel", "int8:static:channel",
        "int4,sink_tokens=64,recent_tokens=128", "int4_per_token_head-hadamard",
        "int4_per_token_head-hadamard+bias_removed", "q8_0+bias_removed", "fp8_e4m3:head",
        "k=int4:token_head:zp:hadamard:block_mean,v=int8", "k=bf16,v=int4",
        "k=int8:channel:zp:clip0.95,v=bf16", "k=int8,v=int4,write=sealed,q=fp8_e4m3",
        "k=fp8_e4m3:tensor:unit,v=bf16,write=append,p=fp8_e4m3"}) {
    const KvFormat format = ParseKvFormat(text);
    EXPECT_EQ(ParseKvFormat(ToString(format)), format) << text << " -> " << ToString(format);
  }
  EXPECT_EQ(ToString(ParseKvFormat("int8+bias_removed")), "int8+bias_removed");
  EXPECT_EQ(ToString(ParseKvFormat("k=int8,v=int8")), "int8");
}

TEST(KvFormat, VllmNamesMeanVllm) {
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head",
                           "int4_per_token_head", "vllm_fp8"}) {
    EXPECT_EQ(ParseKvFormat(name).write, WriteMode::kAppend) << name;
  }
  EXPECT_EQ(ParseKvFormat("fp8_e4m3").k.source, ScaleSource::kUnit);
  EXPECT_EQ(ParseKvFormat("int8_per_token_head").k.scale_storage, ScaleStorage::kFp32);
  EXPECT_EQ(ParseKvFormat("int4_per_token_head").v.scale_storage, ScaleStorage::kFp32Packed);
  EXPECT_TRUE(ParseKvFormat("int4_per_token_head").k.hadamard);
  EXPECT_EQ(ParseKvFormat("vllm_fp8").query_rounding, Rounding::kFp8E4m3);
}

TEST(KvFormat, OursAreSealed) {
  const KvFormat int4 = ParseKvFormat("int4");
  EXPECT_EQ(int4.write, WriteMode::kSealed);
  EXPECT_EQ(int4.k.granularity, Granularity::kChannel);
  EXPECT_EQ(int4.v.granularity, Granularity::kTokenHead);
  EXPECT_TRUE(int4.v.hadamard);
  EXPECT_FALSE(int4.k.hadamard);
  EXPECT_DOUBLE_EQ(BitsPerValue(int4.k, 64), 4.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(int4.v, 64), 4.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(int4.v, 128), 4.25);
  EXPECT_DOUBLE_EQ(BitsPerValue(ParseKvFormat("int8").k, 64), 8.5);
  EXPECT_DOUBLE_EQ(BitsPerValue(ParseKvFormat("int4_per_token_head").k, 128), 4.25);
  EXPECT_DOUBLE_EQ(BitsPerValue(ParseKvFormat("q8_0").k, 128), 8.5);
}

TEST(KvFormat, WhatCannotBeIsRefused) {
  for (const char* text :
       {"", "int9", "int8+", "int8+foo", "k=int8", "k=int8:channel:zp,v=int8,write=append",
        "k=int4:token_head:zp:block_mean,v=int8,write=append", "fp8_e4m3,sink_tokens=4",
        "fp8_e4m3,recent_tokens=4", "k=bf16:zp,v=bf16", "k=bf16:hadamard,v=bf16",
        "k=fp8_e4m3:token_head:zp,v=bf16", "k=int8:tensor,v=int8", "k=int8:tensor:unit,v=int8",
        "k=int8:tensor:dynamic,v=int8", "k=int8,v=int8:channel:zp:block_mean",
        "k=int8,v=int8:bias_removed", "k=int8:group24,v=int8", "k=int8:group0,v=int8",
        "k=int8:token_head:zp:clip0,v=int8", "k=int8:token_head:zp:clip1.5,v=int8",
        "k=int8:token_head:zp:clipnan,v=int8", "k=int8:token_head:packed_scale,v=int8",
        "k=int8:static:zp,v=int8", "k=int8:static:hadamard,v=int8", "int8,sink_tokens=-1",
        "int8,sink_tokens=99999999999", "int8,sink_tokens=1,sink_tokens=2", "int8,foo=1",
        "int8,write=later", "int8,q=int8", "int8+block_mean", "k=int8:token_head:zp:bf16,v=int8"}) {
    if (std::string(text) == "k=int8") continue;
    EXPECT_THROW(ParseKvFormat(text), Error) << text;
  }
  EXPECT_THROW(ParseKvFormat(std::string(5000, 'x')), Error);
}

TEST(KvFormat, AMisspeltNameGetsASuggestion) {
  try {
    ParseKvFormat("fp8_e4m4");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.hint().find("did you mean fp8_e4m3?"), std::string::npos) << error.hint();
  }
}

TEST(KvFormat, HeadDimensionsThatDoNotFitAreRefused) {
  EXPECT_NO_THROW(ValidateKvFormat(ParseKvFormat("q8_0"), 96));
  EXPECT_THROW(ValidateKvFormat(ParseKvFormat("q8_0"), 80), Error);
  EXPECT_THROW(ValidateKvFormat(ParseKvFormat("int4"), 144), Error);
  EXPECT_THROW(ValidateKvFormat(ParseKvFormat("bf16"), 72), Error);
  EXPECT_NO_THROW(ValidateKvFormat(ParseKvFormat("int4"), 112));
}

// Streams of the named formats with some fields changed at random: those that are accepted must
// print to something that means the same.
TEST(KvFormat, ParsingWhatWasPrintedGivesTheSame) {
  Random random(3);
  const auto mutate = [&random](StreamFormat* s) {
    switch (random.Below(9)) {
      case 0: s->codec = static_cast<Codec>(random.Below(8)); break;
      case 1: s->granularity = static_cast<Granularity>(random.Below(6)); break;
      case 2: s->zero_point = !s->zero_point; break;
      case 3: s->source = static_cast<ScaleSource>(random.Below(3)); break;
      case 4: s->scale_storage = static_cast<ScaleStorage>(random.Below(3)); break;
      case 5: s->centering = static_cast<Centering>(random.Below(3)); break;
      case 6: s->hadamard = !s->hadamard; break;
      case 7: s->clip = 0.5F + static_cast<float>(random.Below(50)) / 100; break;
      default:
        s->granularity = Granularity::kGroup;
        s->group = static_cast<uint32_t>(16 * (1 + random.Below(4)));
    }
  };
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    KvFormat format = ParseKvFormat(kNames[random.Below(kNames.size())]);
    format.v = ParseKvFormat(kNames[random.Below(kNames.size())]).v;
    for (uint64_t n = random.Below(3); n > 0; --n) mutate(&format.k);
    for (uint64_t n = random.Below(3); n > 0; --n) mutate(&format.v);
    if (random.Below(4) == 0) format.write = WriteMode::kSealed;
    if (random.Below(4) == 0) format.sink_tokens = 64;
    if (random.Below(4) == 0) format.query_rounding = Rounding::kFp8E4m3;
    try {
      ValidateKvFormat(format, 192);
    } catch (const Error&) {
      continue;
    }
    ++accepted;
    ASSERT_EQ(ParseKvFormat(ToString(format)), format) << ToString(format);
  }
  EXPECT_GT(accepted, 2000);
}

TEST(KvFormat, RandomTextNeverCrashes) {
  Random random(4);
  const std::string alphabet = "kv=int842fp_e3m,:+-bs0.9zpchad";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = random.Below(40); n > 0; --n) text += alphabet[random.Below(alphabet.size())];
    try {
      const KvFormat format = ParseKvFormat(text);
      EXPECT_EQ(ParseKvFormat(ToString(format)), format) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
  }
}

}  // namespace
}  // namespace kvant
