// The mistakes that implementations of these formats have made, one test each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"
#include "kvant/format/reference_codec.h"

namespace kvant {
namespace {

constexpr uint32_t kTokens = kBlockTokens;
constexpr uint32_t kHeadDim = 64;
constexpr size_t kValues = size_t{kTokens} * kHeadDim;

StreamFormat Stream(const std::string& text) { return ParseKvFormat("k=" + text + ",v=bf16").k; }

QuantizedMatrix Quantize(const StreamFormat& stream, const std::vector<float>& values,
                         const std::vector<float>& static_scale = {}) {
  return QuantizeReference(stream, values, kTokens, kHeadDim, static_scale);
}

std::vector<float> Gaussian(uint64_t seed, float mean = 0) {
  Random random(seed);
  std::vector<float> values(kValues);
  for (float& x : values) x = mean + static_cast<float>(random.Normal());
  return values;
}

uint32_t FloatBits(double value) {
  const auto x = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

bool IsFp16(double value) {
  return value == FloatFromFp16(Fp16FromFloat(static_cast<float>(value)));
}

// bit**2 - 1 is right for 2 and 4 bits by chance, and gives 63 levels for 8.
TEST(QuantizeTraps, AnAffineFormatHasTwoToTheBitsCodes) {
  for (const std::string codec : {"int8", "int4", "int2"}) {
    for (const std::string granularity : {":channel", ":token_head", ":group32"}) {
      const StreamFormat stream = Stream(codec + granularity + ":zp");
      const int levels = codec == "int8" ? 255 : codec == "int4" ? 15 : 3;
      // Whole numbers whose scale groups hold both 0 and the highest level: the scale is 1.
      std::vector<float> values(kValues);
      Random random(1);
      for (size_t i = 0; i < kValues; ++i) {
        const size_t index = granularity == ":channel" ? i / kHeadDim : i % 32;
        values[i] = index == 0   ? 0.0F
                    : index == 1 ? static_cast<float>(levels)
                                 : static_cast<float>(random.Below(static_cast<uint64_t>(levels)));
      }
      const QuantizedMatrix matrix = Quantize(stream, values);
      for (size_t i = 0; i < kValues; ++i) {
        ASSERT_EQ(matrix.scale[i], 1.0) << codec << granularity;
        ASSERT_EQ(matrix.offset[i], 0.0) << codec << granularity;
        ASSERT_EQ(matrix.codes[i], static_cast<int32_t>(values[i])) << codec << granularity;
      }
    }
  }
}

TEST(QuantizeTraps, EveryCodeOfAStaticIntegerFormatIsReachable) {
  const auto codes_of = [](const char* codec, float from, float to) {
    std::vector<float> values(kValues, 0);
    for (size_t i = 0; i < kValues; ++i) {
      values[i] = from + (to - from) * static_cast<float>(i) / static_cast<float>(kValues - 1);
    }
    const QuantizedMatrix matrix = Quantize(Stream(std::string(codec) + ":static"), values, {0.5F});
    return std::set<int32_t>(matrix.codes.begin(), matrix.codes.end());
  };
  EXPECT_EQ(codes_of("int8", -70, 70).size(), 256U);
  EXPECT_EQ(*codes_of("int8", -70, 70).begin(), -128);
  EXPECT_EQ(codes_of("int4", -5, 5),
            (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(codes_of("int2", -5, 5), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(QuantizeTraps, SymmetricCodesBelowEightBitsAreCentredWhenRead) {
  std::vector<float> values(kValues, 0);
  values[0] = 3.5F;
  values[1] = -4.0F;
  values[2] = 1.0F;
  const StreamFormat int4 = Stream("int4:static");
  const QuantizedMatrix matrix = Quantize(int4, values, {0.5F});
  EXPECT_EQ(matrix.codes[0], 15);
  EXPECT_EQ(matrix.codes[1], 0);
  EXPECT_EQ(matrix.codes[3], 8);
  const std::vector<double> read = DequantizeReference(int4, matrix);
  EXPECT_EQ(read[0], 3.5);
  EXPECT_EQ(read[1], -4.0);
  EXPECT_EQ(read[3], 0.0);
  const StreamFormat int2 = Stream("int2:static");
  EXPECT_EQ(DequantizeReference(int2, Quantize(int2, values, {0.5F}))[2], 0.5);
}

TEST(QuantizeTraps, EveryFp8CodeSurvives) {
  for (const bool e4m3 : {true, false}) {
    const StreamFormat stream = Stream(e4m3 ? "fp8_e4m3:tensor:unit" : "fp8_e5m2:tensor:unit");
    std::vector<float> values(kValues, 0);
    std::vector<int32_t> finite;
    for (int code = 0; code < 256; ++code) {
      const auto bits = static_cast<uint8_t>(code);
      const float value = e4m3 ? FloatFromFp8E4m3(bits) : FloatFromFp8E5m2(bits);
      if (!std::isfinite(value)) continue;
      values[finite.size()] = value;
      finite.push_back(code);
    }
    EXPECT_EQ(finite.size(), e4m3 ? 254U : 248U);
    const QuantizedMatrix matrix = Quantize(stream, values);
    const std::vector<double> read = DequantizeReference(stream, matrix);
    for (size_t i = 0; i < finite.size(); ++i) {
      EXPECT_EQ(matrix.codes[i], finite[i]);
      EXPECT_EQ(read[i], values[i]);
    }
    EXPECT_EQ(matrix.counts.saturated, 0U);
  }
}

TEST(QuantizeTraps, ConstantVectorsDoNotDivideByZero) {
  for (const char* text : {"int8:channel:zp", "int4:token_head:zp", "int2:group32:zp",
                           "int4:token_head:zp:fp32_scale"}) {
    for (const float constant : {0.0F, 1.5F, -2.0F}) {  // exact in fp16
      const StreamFormat stream = Stream(text);
      const QuantizedMatrix matrix = Quantize(stream, std::vector<float>(kValues, constant));
      const std::vector<double> read = DequantizeReference(stream, matrix);
      for (size_t i = 0; i < kValues; ++i) {
        ASSERT_EQ(matrix.scale[i], 0.0) << text;
        ASSERT_EQ(matrix.codes[i], 0) << text;
        ASSERT_EQ(read[i], constant) << text;
      }
    }
    // Not exact in fp16: the offset is below it, and a small scale makes up for the rest.
    const StreamFormat stream = Stream(text);
    const std::vector<double> read =
        DequantizeReference(stream, Quantize(stream, std::vector<float>(kValues, 3.14159F)));
    for (const double x : read) ASSERT_NEAR(x, 3.14159, 1e-5) << text;
  }
}

TEST(QuantizeTraps, ZeroVectorsStayZero) {
  for (const char* text :
       {"int8:token_head", "int4:group32", "int2:token_head", "fp8_e4m3:token_head",
        "fp8_e5m2:tensor:unit", "int8:token_head:fp32_scale", "int4:token_head:zp:packed_scale",
        "int4:token_head:zp:hadamard", "int4:token_head:zp:block_mean", "fp16", "bf16", "fp32"}) {
    const StreamFormat stream = Stream(text);
    for (const double x :
         DequantizeReference(stream, Quantize(stream, std::vector<float>(kValues, 0.0F)))) {
      ASSERT_EQ(x, 0.0) << text;
    }
  }
}

TEST(QuantizeTraps, OneHotVectorsKeepTheirSpike) {
  for (const char* text :
       {"int8:channel:zp", "int8:token_head:zp", "int4:token_head:zp", "int2:token_head:zp",
        "int8:group32", "int8:token_head:fp32_scale", "fp8_e4m3:token_head:fp32_scale",
        "int4:group32", "int2:token_head", "int4:token_head:zp:packed_scale"}) {
    for (const float spike : {6.0F, -6.0F}) {
      std::vector<float> values(kValues, 0.0F);
      values[70] = spike;
      const StreamFormat stream = Stream(text);
      const std::vector<double> read = DequantizeReference(stream, Quantize(stream, values));
      EXPECT_NEAR(read[70], spike, 0.02 * 6) << text;
      for (size_t i = 0; i < kValues; ++i) {
        if (i == 70) continue;
        ASSERT_NEAR(read[i], 0, 0.02) << text << " " << i;
      }
    }
  }
}

TEST(QuantizeTraps, DenormalVectorsStayWithinTheirRange) {
  for (const char* text :
       {"int8:channel:zp", "int4:token_head:zp", "int8:group32", "int4:group32",
        "fp8_e4m3:token_head:fp32_scale", "int4:token_head:zp:packed_scale", "fp8_e5m2:tensor:unit",
        "int4:token_head:zp:hadamard", "int8:token_head:fp16_scale"}) {
    std::vector<float> values = Gaussian(1);
    for (float& x : values) x *= 1e-40F;
    const StreamFormat stream = Stream(text);
    for (const double x : DequantizeReference(stream, Quantize(stream, values))) {
      // Nothing larger than fp16's smallest step may come out of next to nothing.
      ASSERT_LE(std::fabs(x), 0x1p-24 * kHeadDim) << text;
    }
  }
}

TEST(QuantizeTraps, TheScaleThatIsStoredIsTheScaleThatIsUsed) {
  const std::vector<float> values = Gaussian(2);
  for (const char* text : {"int8:channel:zp", "int4:token_head:zp", "int2:group32:zp",
                           "int8:group32", "int4:group32", "fp8_e4m3:token_head"}) {
    const StreamFormat stream = Stream(text);
    const QuantizedMatrix matrix = Quantize(stream, values);
    for (size_t i = 0; i < kValues; ++i) {
      ASSERT_TRUE(IsFp16(matrix.scale[i]) && IsFp16(matrix.offset[i])) << text;
      if (!stream.zero_point) continue;
      // The code is the nearest one under the stored numbers, not under those before rounding.
      const double scaled = (values[i] - matrix.offset[i]) / matrix.scale[i];
      ASSERT_LE(std::fabs(scaled - matrix.codes[i]), 0.5) << text;
    }
  }
  for (const char* text : {"int8:token_head:fp32_scale", "int8:token_head:zp:fp32_scale"}) {
    for (const double scale : Quantize(Stream(text), values).scale) {
      ASSERT_EQ(scale, static_cast<double>(static_cast<float>(scale))) << text;
    }
  }
}

TEST(QuantizeTraps, StoredRangesHoldEveryValue) {
  for (const float mean : {0.0F, 100.0F, -1000.0F, 0.001F}) {
    const std::vector<float> values = Gaussian(3, mean);
    for (const char* text : {"int8:channel:zp", "int4:token_head:zp", "int2:group32:zp"}) {
      const StreamFormat stream = Stream(text);
      const QuantizedMatrix matrix = Quantize(stream, values);
      const double levels = (1U << CodecBits(stream.codec)) - 1U;
      for (size_t i = 0; i < kValues; ++i) {
        ASSERT_GE(values[i], matrix.offset[i]) << text;
        ASSERT_LE(values[i], matrix.offset[i] + levels * matrix.scale[i]) << text;
      }
      EXPECT_EQ(matrix.counts.saturated, 0U);
    }
  }
}

// Moving all values moves the offset and leaves the scale.
TEST(QuantizeTraps, TheZeroPointIsNotMadeFromTheScale) {
  const std::vector<float> values = Gaussian(4);
  std::vector<float> moved = values;
  for (float& x : moved) x += 64.0F;
  const StreamFormat stream = Stream("int8:token_head:zp");
  const QuantizedMatrix before = Quantize(stream, values);
  const QuantizedMatrix after = Quantize(stream, moved);
  for (size_t i = 0; i < kValues; i += kHeadDim) {
    EXPECT_NEAR(after.offset[i], before.offset[i] + 64, 0.07);
    EXPECT_NEAR(after.scale[i], before.scale[i], 0.0005);
  }
}

TEST(QuantizeTraps, StaticScalesAreLookedUpByTheirGranularity) {
  std::vector<float> scales(kHeadDim);
  for (size_t d = 0; d < kHeadDim; ++d) scales[d] = 0.01F * static_cast<float>(d + 1);
  const std::vector<float> values = Gaussian(5);
  const QuantizedMatrix per_channel = Quantize(Stream("int8:channel:static"), values, scales);
  const QuantizedMatrix per_head = Quantize(Stream("fp8_e4m3:head:static"), values, {0.25F});
  for (size_t i = 0; i < kValues; ++i) {
    ASSERT_EQ(per_channel.scale[i], scales[i % kHeadDim]);
    ASSERT_EQ(per_head.scale[i], 0.25);
  }
}

TEST(QuantizeTraps, ValuesBeyondAStaticScaleAreClampedAndCounted) {
  std::vector<float> values(kValues, 1.0F);
  values[5] = 200.0F;
  values[6] = -200.0F;
  values[7] = 127.0F;
  values[8] = -128.0F;
  const StreamFormat int8 = Stream("int8:static");
  const QuantizedMatrix matrix = Quantize(int8, values, {1.0F});
  EXPECT_EQ(matrix.codes[5], 127);
  EXPECT_EQ(matrix.codes[6], -128);
  EXPECT_EQ(matrix.counts.saturated, 2U);
  const StreamFormat fp8 = Stream("fp8_e4m3:static");
  values[9] = 449.0F;
  const QuantizedMatrix narrow = Quantize(fp8, values, {1.0F});
  EXPECT_EQ(narrow.counts.saturated, 1U);
  EXPECT_EQ(DequantizeReference(fp8, narrow)[9], 448.0);
  EXPECT_EQ(narrow.counts.values, kValues);
}

TEST(QuantizeTraps, Fp16OverflowSaturatesAndIsCounted) {
  for (const char* text : {"int8:token_head:zp", "int4:channel:zp", "int8:group32", "int4:group32",
                           "fp8_e4m3:token_head", "int8:token_head:zp:hadamard"}) {
    std::vector<float> values = Gaussian(6);
    for (float& x : values) x *= 1e12F;
    const StreamFormat stream = Stream(text);
    const QuantizedMatrix matrix = Quantize(stream, values);
    EXPECT_GT(matrix.counts.saturated, kValues / 2) << text;
    for (const double scale : matrix.scale) ASSERT_LE(std::fabs(scale), 65504.0) << text;
    for (const double x : DequantizeReference(stream, matrix)) ASSERT_TRUE(std::isfinite(x));
  }
  const StreamFormat fp16 = Stream("fp16");
  std::vector<float> values(kValues, 65504.0F);
  values[3] = -65536.0F;
  const QuantizedMatrix matrix = Quantize(fp16, values);
  EXPECT_EQ(matrix.counts.saturated, 1U);
  EXPECT_EQ(DequantizeReference(fp16, matrix)[3], -65504.0);
}

TEST(QuantizeTraps, OrdinaryValuesAreNeverCountedAsSaturated) {
  for (const char* text :
       {"int8:channel:zp", "int4:token_head:zp:hadamard", "int8:group32", "int4:group32",
        "int2:token_head", "fp8_e4m3:token_head:fp32_scale", "int8:token_head:fp32_scale",
        "int4:token_head:zp:packed_scale:hadamard", "bf16", "fp16", "fp8_e5m2:tensor:unit"}) {
    const QuantizedMatrix matrix = Quantize(Stream(text), Gaussian(7));
    EXPECT_EQ(matrix.counts.saturated, 0U) << text;
    EXPECT_EQ(matrix.counts.clipped, 0U) << text;
    EXPECT_EQ(matrix.counts.non_finite, 0U) << text;
  }
}

TEST(QuantizeTraps, NonFiniteValuesDoNotSpread) {
  for (const char* text :
       {"int8:channel:zp", "int4:token_head:zp:hadamard", "fp8_e4m3:tensor:unit",
        "int8:token_head:zp:block_mean", "fp16", "bf16", "fp32", "int4:group32"}) {
    std::vector<float> values = Gaussian(8);
    values[0] = std::numeric_limits<float>::quiet_NaN();
    values[100] = std::numeric_limits<float>::infinity();
    values[200] = -std::numeric_limits<float>::infinity();
    const StreamFormat stream = Stream(text);
    const QuantizedMatrix matrix = Quantize(stream, values);
    EXPECT_EQ(matrix.counts.non_finite, 3U) << text;
    const std::vector<double> read = DequantizeReference(stream, matrix);
    for (const double x : read) ASSERT_TRUE(std::isfinite(x)) << text;
  }
}

TEST(QuantizeTraps, ClippingKeepsTheCentreAndCountsWhatItCuts) {
  std::vector<float> ramp(kValues);
  for (size_t i = 0; i < kValues; ++i) ramp[i] = static_cast<float>(i % kHeadDim);
  // Of 0 … 63 the middle half, 15.75 … 47.25, is kept: 16 … 47.
  const QuantizedMatrix affine = Quantize(Stream("int8:token_head:zp:clip0.5"), ramp);
  EXPECT_EQ(affine.counts.clipped, 32U * kTokens);
  EXPECT_EQ(affine.counts.saturated, 0U);
  EXPECT_NEAR(affine.offset[0], 15.75, 0.01);
  EXPECT_EQ(affine.codes[0], 0);
  EXPECT_EQ(affine.codes[63], 255);
  // Symmetric: -32 … 31 keeps ±24.
  std::vector<float> centred = ramp;
  for (float& x : centred) x -= 32.0F;
  const QuantizedMatrix symmetric =
      Quantize(Stream("int8:token_head:fp32_scale:clip0.75"), centred);
  EXPECT_NEAR(symmetric.scale[0], 24.0 / 127, 1e-6);
  EXPECT_EQ(symmetric.counts.clipped, (8U + 7U) * kTokens);
  EXPECT_EQ(Quantize(Stream("int8:token_head:zp"), ramp).counts.clipped, 0U);
}

TEST(QuantizeTraps, TheBlockMeanIsStoredInFp16AndAddedBackExactly) {
  std::vector<float> values = Gaussian(9);
  for (size_t i = 0; i < kValues; ++i) values[i] += i % kHeadDim == 7 ? 300.0F : 0.0F;
  const StreamFormat plain = Stream("int8:token_head:zp");
  const StreamFormat centred = Stream("int8:token_head:zp:hadamard:block_mean");
  const QuantizedMatrix matrix = Quantize(centred, values);
  ASSERT_EQ(matrix.mean.size(), kHeadDim);
  for (const double mean : matrix.mean) EXPECT_TRUE(IsFp16(mean));
  EXPECT_NEAR(matrix.mean[7], 300, 0.5);
  const auto largest_error = [&values](const StreamFormat& stream) {
    const std::vector<double> read = DequantizeReference(stream, Quantize(stream, values));
    double largest = 0;
    for (size_t i = 0; i < kValues; ++i)
      largest = std::max(largest, std::fabs(read[i] - values[i]));
    return largest;
  };
  EXPECT_GT(largest_error(plain), 0.5);
  EXPECT_LT(largest_error(centred), 0.1);
}

// vLLM's formula in float32, written independently: codes from the whole scale, values from the
// scale without the bits that hold the zero point.
TEST(QuantizeTraps, PackedScalesAreVllms) {
  for (const float mean : {0.0F, 2.0F, 20.0F}) {
    const std::vector<float> values = Gaussian(10, mean);
    const StreamFormat stream = Stream("int4:token_head:zp:packed_scale");
    const QuantizedMatrix matrix = Quantize(stream, values);
    for (size_t t = 0; t < kTokens; ++t) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(t * kHeadDim);
      const auto [low, high] = std::minmax_element(begin, begin + kHeadDim);
      const float scale = std::max((*high - *low) / 15.0F, 1e-6F);
      const float zero = std::clamp(std::round(-*low / scale), 0.0F, 15.0F);
      for (size_t i = t * kHeadDim; i < (t + 1) * kHeadDim; ++i) {
        ASSERT_EQ(FloatBits(matrix.scale[i]), FloatBits(scale) & ~15U);
        ASSERT_NEAR(-matrix.offset[i] / matrix.scale[i], zero, 1e-9);
        const float code = std::clamp(std::round(values[i] / scale + zero), 0.0F, 15.0F);
        ASSERT_NEAR(matrix.codes[i], code, std::fabs(mean) > 0 ? 1 : 0) << i;
      }
    }
    // Far from zero the zero point ends at 0 and the values are lost: that must be visible.
    if (mean == 20.0F) {
      EXPECT_GT(matrix.counts.saturated, kValues / 2);
    } else if (mean == 0.0F) {
      EXPECT_EQ(matrix.counts.saturated, 0U);
    }
  }
}

// A format that appends may be given a token at a time: nothing may depend on the tokens beside it.
TEST(QuantizeTraps, AppendFormatsQuantizeEachTokenByItself) {
  const std::vector<float> values = Gaussian(11);
  for (const char* name : {"fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head",
                           "int4_per_token_head"}) {
    const StreamFormat stream = ParseKvFormat(name).k;
    const QuantizedMatrix whole = Quantize(stream, values);
    for (uint32_t t = 0; t < kTokens; ++t) {
      const std::span<const float> token(values.data() + size_t{t} * kHeadDim, kHeadDim);
      const QuantizedMatrix single = QuantizeReference(stream, token, 1, kHeadDim, {});
      for (size_t d = 0; d < kHeadDim; ++d) {
        ASSERT_EQ(single.codes[d], whole.codes[t * kHeadDim + d]) << name;
        ASSERT_EQ(single.scale[d], whole.scale[t * kHeadDim + d]) << name;
        ASSERT_EQ(single.offset[d], whole.offset[t * kHeadDim + d]) << name;
      }
    }
  }
}

}  // namespace
}  // namespace kvant
