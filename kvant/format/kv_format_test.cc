#include "kvant/format/kv_format.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/format/named_formats.h"

namespace kvant {
namespace {

Error RefusalOf(const std::string& text) {
  try {
    const KvFormat format = ParseKvFormat(text);
    ADD_FAILURE() << "accepted '" << text << "' as " << ToString(format);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "accepted");
}

TEST(KvFormat, EveryNamePrintsAsItself) {
  for (const NamedFormat& named : NamedFormats()) {
    EXPECT_EQ(ToString(ParseKvFormat(named.name)), named.name);
    EXPECT_EQ(ParseKvFormat(named.name), named.format);
  }
}

TEST(KvFormat, NamesMeanWhatTheirFullSpellingSays) {
  const std::vector<std::pair<std::string, std::string>> meanings = {
      {"fp32", "k=fp32,v=fp32"},
      {"bf16", "k=bf16,v=bf16,write=sealed"},
      {"fp16", "k=fp16,v=fp16"},
      {"int8", "k=int8:channel:dynamic:zp:fp16_scale,v=int8:token_head:dynamic:zp:fp16_scale"},
      {"int4", "k=int4:channel:zp,v=int4:token_head:zp:hadamard"},
      {"int2", "k=int2:token_head:zp,v=int2:token_head:zp"},
      {"q8_0", "k=int8:group32,v=int8:group32"},
      {"q4_0", "k=int4:group32:dynamic,v=int4:group32:dynamic"},
      {"fp8_e4m3", "k=fp8_e4m3:tensor:unit,v=fp8_e4m3:unit,write=append"},
      {"fp8_e5m2", "k=fp8_e5m2:tensor:unit,v=fp8_e5m2:unit,write=append"},
      {"vllm_fp8", "fp8_e4m3:static,q=fp8_e4m3,p=fp8_e4m3"},
      {"fp8_per_token_head",
       "k=fp8_e4m3:token_head:fp32_scale,v=fp8_e4m3:token_head:fp32_scale,write=append"},
      {"int8_per_token_head",
       "k=int8:token_head:fp32_scale,v=int8:token_head:fp32_scale,write=append"},
      {"int4_per_token_head",
       "k=int4:token_head:zp:packed_scale:hadamard,v=int4:token_head:zp:packed_scale:hadamard,"
       "write=append"},
  };
  EXPECT_EQ(meanings.size(), NamedFormats().size());
  for (const auto& [name, full] : meanings) {
    EXPECT_EQ(ParseKvFormat(full), ParseKvFormat(name)) << name;
    EXPECT_EQ(ToString(ParseKvFormat(full)), name);
  }
}

TEST(KvFormat, ChangedNamesPrintAsTheyWereWritten) {
  for (const char* text :
       {"int8+bias_removed", "int8+block_mean", "int8+hadamard", "int8+hadamard+bias_removed",
        "int4-hadamard", "bf16+bias_removed", "fp8_e4m3:static", "fp8_e4m3:static:head",
        "fp8_e4m3:static:channel", "fp8_e4m3:head", "int8:static", "int8:static:channel",
        "int4:static:head", "int4,sink_tokens=64,recent_tokens=128", "int8,recent_tokens=1",
        "int4_per_token_head-hadamard", "int4_per_token_head-hadamard+bias_removed",
        "q8_0+bias_removed", "vllm_fp8:static:head"}) {
    EXPECT_EQ(ToString(ParseKvFormat(text)), text);
  }
}

TEST(KvFormat, DifferentSpellingsOfTheSameFormatPrintTheSame) {
  const std::vector<std::pair<std::string, std::string>> spellings = {
      {"k=int8,v=int8", "int8"},
      {"int4+hadamard-hadamard+hadamard", "int4+hadamard"},
      {"fp8_e4m3:unit:tensor", "fp8_e4m3"},
      {"fp8_e4m3:tensor", "fp8_e4m3"},
      {"fp8_e4m3:static:tensor", "fp8_e4m3:static"},
      {"vllm_fp8,q=none,p=none", "fp8_e4m3:static"},
      {"q8_0:static", "int8:static"},
      {"int8,v=bf16,recent_tokens=064", "k=int8:channel:dynamic:zp,v=bf16,recent_tokens=64"},
      {"k=bf16,v=int4", "k=bf16,v=int4:token_head:dynamic:zp:hadamard"},
      {"k=int8_per_token_head,v=bf16,write=append",
       "k=int8:token_head:dynamic:fp32_scale,v=bf16,write=append"},
      {"k=int8:channel:zp:clip0.950,v=bf16", "k=int8:channel:dynamic:zp:clip0.95,v=bf16"},
      {"k=int8:hadamard:zp:channel,v=bf16,p=fp8_e4m3,q=fp8_e4m3",
       "k=int8:channel:dynamic:zp:hadamard,v=bf16,q=fp8_e4m3,p=fp8_e4m3"},
  };
  for (const auto& [written, printed] : spellings) {
    EXPECT_EQ(ToString(ParseKvFormat(written)), printed) << written;
    EXPECT_EQ(ParseKvFormat(printed), ParseKvFormat(written));
  }
}

TEST(KvFormat, BitsPerValueCountScalesAndZeroPoints) {
  const auto k_bits = [](const char* text, uint32_t head_dim) {
    return BitsPerValue(ParseKvFormat(text).k, head_dim);
  };
  const auto v_bits = [](const char* text, uint32_t head_dim) {
    return BitsPerValue(ParseKvFormat(text).v, head_dim);
  };
  EXPECT_DOUBLE_EQ(k_bits("int8", 64), 8.5);
  EXPECT_DOUBLE_EQ(v_bits("int8", 64), 8.5);
  EXPECT_DOUBLE_EQ(k_bits("int4", 64), 4.5);
  EXPECT_DOUBLE_EQ(v_bits("int4", 64), 4.5);
  EXPECT_DOUBLE_EQ(k_bits("int4", 128), 4.5);
  EXPECT_DOUBLE_EQ(v_bits("int4", 128), 4.25);
  EXPECT_DOUBLE_EQ(k_bits("int8+block_mean", 64), 8.75);
  EXPECT_DOUBLE_EQ(k_bits("int8_per_token_head", 128), 8.25);
  EXPECT_DOUBLE_EQ(k_bits("int4_per_token_head", 128), 4.25);
  EXPECT_DOUBLE_EQ(k_bits("q8_0", 128), 8.5);
  EXPECT_DOUBLE_EQ(k_bits("q4_0", 128), 4.5);
  EXPECT_DOUBLE_EQ(k_bits("fp8_e4m3:static:channel", 64), 8);
  EXPECT_DOUBLE_EQ(k_bits("bf16+bias_removed", 64), 16);
  EXPECT_DOUBLE_EQ(k_bits("fp32", 64), 32);
}

TEST(KvFormat, OpenBlocksAreKeptInTheStreamsOwnSixteenBits) {
  EXPECT_EQ(OpenCodec(ParseKvFormat("fp32").k), Codec::kFp32);
  EXPECT_EQ(OpenCodec(ParseKvFormat("fp16").v), Codec::kFp16);
  EXPECT_EQ(OpenCodec(ParseKvFormat("int4").v), Codec::kBf16);
  EXPECT_EQ(ParseKvFormat("int8,sink_tokens=1,recent_tokens=65").sink_blocks(), 1U);
  EXPECT_EQ(ParseKvFormat("int8,sink_tokens=1,recent_tokens=65").recent_blocks(), 2U);
}

struct Refusal {
  const char* text;
  const char* message;  // what the message must contain
  const char* hint;     // what the hint must contain
};

class RefusedFormat : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedFormat, SaysWhichPartIsWrongAndWhatMayStandThere) {
  const Error error = RefusalOf(GetParam().text);
  EXPECT_EQ(error.code(), ErrorCode::kUsage) << GetParam().text;
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.message();
  EXPECT_NE(error.hint().find(GetParam().hint), std::string::npos) << error.hint();
}

INSTANTIATE_TEST_SUITE_P(
    Names, RefusedFormat,
    testing::Values(Refusal{"", "0 characters", "int8"},
                    Refusal{"int9", "'int9' is not a format", "did you mean int8?"},
                    Refusal{"fp8_e4m4", "is not a format", "did you mean fp8_e4m3?"},
                    Refusal{"wavelet_transform", "is not a format", "formats: fp32, bf16"},
                    Refusal{"int8 ", "'int8 ' is not a format", "did you mean int8?"},
                    Refusal{"INT8", "is not a format", "formats:"},
                    Refusal{"int8+", "'+' is not a modifier", "+hadamard"},
                    Refusal{"int8+foo", "'+foo' is not a modifier", "+hadamard"},
                    Refusal{"int8-bias_removed", "'-bias_removed'", "+bias_removed"},
                    Refusal{"int8:head", "dynamic", "add static"},
                    Refusal{"int8:token_head", "'token_head' cannot follow a name", "k=... and v="},
                    Refusal{"int8:", "'' cannot follow a name", "static"},
                    Refusal{"fp8_e4m3:channel", "1.0 is the same", "tensor or head"},
                    Refusal{"bf16:static", "16- or 32-bit codec has no scale", "bias_removed"},
                    Refusal{"bf16+hadamard", "Hadamard", "bias_removed"},
                    Refusal{"bf16+block_mean", "block_mean does nothing", "bias_removed"},
                    Refusal{"fp8_e4m3:static+hadamard", "unrotated values", "drop hadamard"},
                    Refusal{"int8:unit", "integer codes need", "static or dynamic"}));

INSTANTIATE_TEST_SUITE_P(
    Settings, RefusedFormat,
    testing::Values(Refusal{"k=int8", "v= is missing", "both k= and v="},
                    Refusal{"v=int8,write=sealed", "k= is missing", "both k= and v="},
                    Refusal{"int8,", "'' is not a setting", "settings: k, v"},
                    Refusal{"int8,foo=1", "'foo' is not a setting", "recent_tokens"},
                    Refusal{"int8,skip=1", "'skip' is not a setting", "plan"},
                    Refusal{"int8,write", "not a way of writing", "append or sealed"},
                    Refusal{"int8,write=later", "not a way of writing", "append or sealed"},
                    Refusal{"int8,q=int8", "not a rounding", "fp8_e4m3 or none"},
                    Refusal{"int8,p=", "not a rounding", "fp8_e4m3 or none"},
                    Refusal{"int8,sink_tokens=-1", "not a number of tokens", "from 0 to"},
                    Refusal{"int8,sink_tokens=1048577", "not a number of tokens", "1048576"},
                    Refusal{"int8,recent_tokens=99999999999", "not a number", "from 0 to"},
                    Refusal{"int8,sink_tokens=1,sink_tokens=2", "stands twice", "once"},
                    Refusal{"int8,k=bf16,k=bf16", "stands twice", "once"}));

INSTANTIATE_TEST_SUITE_P(
    Streams, RefusedFormat,
    testing::Values(
        Refusal{"k=,v=int8", "'' is not a codec", "codecs: fp32"},
        Refusal{"k=int3,v=int8", "'int3' is not a codec", "int4"},
        Refusal{"k=int8:token_head:bf16,v=int8", "'bf16' is not an attribute",
                "attributes: tensor"},
        Refusal{"k=int8:zp:zp:token_head,v=int8", "'zp' repeats", "once"},
        Refusal{"k=int8:head:channel,v=int8", "'channel' repeats or contradicts", "once"},
        Refusal{"k=int8:group,v=int8", "'group' is not an attribute", "groupN"},
        Refusal{"k=int8:group0,v=int8", "a group of 0 channels", "multiples of 16"},
        Refusal{"k=int8:group24,v=int8", "a group of 24 channels", "multiples of 16"},
        Refusal{"k=int8:group528,v=int8", "a group of 528 channels", "512"},
        Refusal{"k=int8:zp,v=int8", "k: a codec of 8 bits or fewer needs a scale", "token_head"},
        Refusal{"k=bf16:zp,v=bf16", "no scale, zero point", "bias_removed"},
        Refusal{"k=bf16,v=bf16:clip0.5", "v: a 16- or 32-bit codec", "bias_removed"},
        Refusal{"k=fp16:fp32_scale,v=bf16", "no scale", "bias_removed"},
        Refusal{"k=fp8_e4m3:token_head:zp,v=bf16", "floating-point codec has no zero point", "zp"},
        Refusal{"k=fp8_e5m2:tensor:zp,v=bf16", "zero point", "drop zp"},
        Refusal{"k=int8:tensor,v=int8", "integer codes need", "static or dynamic"},
        Refusal{"k=int8:tensor:dynamic,v=int8", "cannot span tokens of other blocks", "static"},
        Refusal{"k=fp8_e4m3:head:dynamic,v=int8", "cannot span tokens", "token_head"},
        Refusal{"k=int8:token_head:static,v=int8", "span a tensor, head or channel", "channel"},
        Refusal{"k=int8:static:zp,v=int8", "zero point", "drop zp"},
        Refusal{"k=int8:static:fp32_scale,v=int8", "only dynamic scales are stored", "fp32_scale"},
        Refusal{"k=int8:static:clip0.9,v=int8", "clip needs a dynamic scale", "drop clip"},
        Refusal{"k=int8,v=int8:token_head:zp:block_mean", "v: bias_removed and block_mean",
                "drop it"},
        Refusal{"k=int8,v=int8:bias_removed", "for K only", "drop it"},
        Refusal{"k=fp32,v=bf16:bias_removed", "for K only", "drop it"},
        Refusal{"k=int8:token_head:clip0,v=int8", "clip 0 is outside (0, 1]", "clip0.95"},
        Refusal{"k=int8:token_head:clip1.5,v=int8", "clip 1.5 is outside", "clip0.95"},
        Refusal{"k=int8:token_head:clip-1,v=int8", "clip -1 is outside", "clip0.95"},
        Refusal{"k=int8:token_head:clipnan,v=int8", "clip nan is outside", "clip0.95"},
        Refusal{"k=int8:token_head:clip1e99,v=int8", "'clip1e99' is not an attribute", "clipX"},
        Refusal{"k=int8:token_head:packed_scale,v=int8", "packed_scale", "fp32_scale"},
        Refusal{"k=int4:channel:zp:packed_scale,v=int8", "packed_scale", "fp32_scale"}));

INSTANTIATE_TEST_SUITE_P(
    Appending, RefusedFormat,
    testing::Values(Refusal{"int8,write=append", "scale that spans tokens", "write=sealed"},
                    Refusal{"k=bf16,v=int8:channel,write=append", "spans tokens", "token_head"},
                    Refusal{"k=int4:token_head:zp:block_mean,v=bf16,write=append", "mean over",
                            "block_mean"},
                    Refusal{"fp8_e4m3,sink_tokens=4", "no token in 16 bits", "write=sealed"},
                    Refusal{"fp8_e4m3,recent_tokens=4", "no token in 16 bits", "recent_tokens"}));

TEST(KvFormat, AbsurdTextsAreRefusedBriefly) {
  for (const std::string& text :
       {std::string(5000, 'x'), std::string(4096, 'x'), std::string(4096, ','),
        "k=" + std::string(4000, ':'), "int8" + std::string(4000, '+'),
        "int8,sink_tokens=" + std::string(4000, '9'), std::string("int8\0\x1b[31m\xff", 11)}) {
    const Error error = RefusalOf(text);
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_LT(error.message().size(), 400U) << error.message();
    for (const char c : error.message()) EXPECT_GE(c, ' ') << error.message();
  }
}

TEST(KvFormat, HeadDimensionsThatDoNotFitAreRefused) {
  for (const uint32_t head_dim : {32U, 64U, 80U, 96U, 112U, 128U, 192U, 256U, 512U}) {
    EXPECT_NO_THROW(ValidateKvFormat(ParseKvFormat("int4"), head_dim)) << head_dim;
  }
  for (const uint32_t head_dim : {0U, 16U, 72U, 520U, 528U, 576U, 4294967280U}) {
    EXPECT_THROW(ValidateKvFormat(ParseKvFormat("bf16"), head_dim), Error) << head_dim;
  }
  EXPECT_NO_THROW(ValidateKvFormat(ParseKvFormat("q8_0"), 96));
  EXPECT_THROW(ValidateKvFormat(ParseKvFormat("q8_0"), 80), Error);
  EXPECT_NO_THROW(ValidateKvFormat(ParseKvFormat("int4-hadamard"), 144));
  EXPECT_THROW(ValidateKvFormat(ParseKvFormat("int4"), 144), Error);
}

template <typename T>
T Pick(Random* random, std::initializer_list<T> values) {
  return values.begin()[random->Below(values.size())];
}

// A stream with every field drawn at random: most contradict themselves.
StreamFormat RandomStream(Random* random) {
  StreamFormat stream;
  stream.codec = static_cast<Codec>(random->Below(8));
  stream.granularity = static_cast<Granularity>(random->Below(6));
  if (stream.granularity == Granularity::kGroup) stream.group = Pick(random, {16U, 32U, 64U, 96U});
  stream.source = Pick(random, {ScaleSource::kUnit, ScaleSource::kStatic, ScaleSource::kDynamic,
                                ScaleSource::kDynamic});
  stream.zero_point = random->Below(2) == 0;
  stream.scale_storage = static_cast<ScaleStorage>(random->Below(3));
  stream.centering = Pick(
      random, {Centering::kNone, Centering::kNone, Centering::kBiasRemoved, Centering::kBlockMean});
  stream.hadamard = random->Below(2) == 0;
  if (random->Below(2) == 0) stream.clip = static_cast<float>(random->Uniform());
  return stream;
}

KvFormat RandomFormat(Random* random) {
  KvFormat format;
  const auto stream = [random](bool is_key) {
    if (random->Below(3) != 0) return RandomStream(random);
    const KvFormat& named = NamedFormats()[random->Below(NamedFormats().size())].format;
    return is_key ? named.k : named.v;
  };
  format.k = stream(true);
  format.v = stream(false);
  format.write = Pick(random, {WriteMode::kSealed, WriteMode::kAppend});
  if (random->Below(3) == 0) format.sink_tokens = static_cast<uint32_t>(random->Below(1000));
  if (random->Below(3) == 0) format.recent_tokens = static_cast<uint32_t>(random->Below(1000));
  format.query_rounding = Pick(random, {Rounding::kNone, Rounding::kNone, Rounding::kFp8E4m3});
  format.probability_rounding = Pick(random, {Rounding::kNone, Rounding::kFp8E4m3});
  return format;
}

TEST(KvFormat, ParsingWhatWasPrintedGivesTheSame) {
  Random random(3);
  int valid = 0;
  for (int i = 0; i < 200000 && valid < 5000; ++i) {
    const KvFormat format = RandomFormat(&random);
    try {
      ValidateKvFormat(format, 192);
    } catch (const Error&) {
      continue;
    }
    ++valid;
    ASSERT_EQ(ParseKvFormat(ToString(format)), format) << ToString(format);
  }
  EXPECT_EQ(valid, 5000);
}

TEST(KvFormat, RandomTextNeverCrashes) {
  Random random(4);
  const std::vector<std::string> words = {"k=",
                                          "v=",
                                          "int8",
                                          "int4",
                                          "fp8_e4m3",
                                          "bf16",
                                          ":",
                                          ",",
                                          "+",
                                          "-",
                                          "hadamard",
                                          "zp",
                                          "clip",
                                          "0.9",
                                          "static",
                                          "head",
                                          "group",
                                          "32",
                                          "channel",
                                          "=",
                                          "write",
                                          "append",
                                          "q8_0",
                                          "token_head",
                                          "1e-3",
                                          "unit",
                                          "vllm_fp8",
                                          "\n",
                                          "\xff",
                                          "recent_tokens",
                                          "sink_tokens=64"};
  int accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (uint64_t n = random.Below(12); n > 0; --n) text += words[random.Below(words.size())];
    try {
      const KvFormat format = ParseKvFormat(text);
      EXPECT_EQ(ParseKvFormat(ToString(format)), format) << text;
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace kvant
