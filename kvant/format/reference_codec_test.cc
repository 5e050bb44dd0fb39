#include "kvant/format/reference_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"

namespace kvant {
namespace {

std::vector<float> Gaussian(Random* random, size_t size) {
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(random->Normal());
  return values;
}

double RelativeError(const StreamFormat& stream, const std::vector<float>& values, uint32_t tokens,
                     uint32_t head_dim) {
  const QuantizedMatrix matrix = QuantizeReference(stream, values, tokens, head_dim, {});
  const std::vector<double> read = DequantizeReference(stream, matrix);
  double error = 0;
  double energy = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    error += (read[i] - values[i]) * (read[i] - values[i]);
    energy += static_cast<double>(values[i]) * values[i];
  }
  return error / energy;
}

// Relative mean squared errors on Gaussian vectors of 128, as theory and an independent simulation
// give them.
TEST(ReferenceCodec, ErrorsOnGaussianDataAreTheKnownOnes) {
  Random random(1);
  const uint32_t tokens = 512;
  const std::vector<float> values = Gaussian(&random, tokens * 128);
  const auto error = [&](const char* text) {
    return RelativeError(ParseKvFormat(text).v, values, tokens, 128);
  };
  EXPECT_NEAR(error("int8_per_token_head"), 4.2e-5, 0.3e-5);
  EXPECT_NEAR(error("q8_0"), 2.9e-5, 0.2e-5);
  EXPECT_NEAR(error("fp8_per_token_head"), 6.61e-4, 0.3e-4);
  EXPECT_NEAR(error("fp8_e4m3"), 7.05e-4, 0.3e-4);
  EXPECT_NEAR(error("fp8_e5m2"), 2.79e-3, 0.1e-3);
  EXPECT_NEAR(error("k=bf16,v=int4:token_head:zp"), 0.0100, 0.0005);
  EXPECT_NEAR(error("k=bf16,v=int4:group32:zp"), 0.0061, 0.0003);
  EXPECT_NEAR(error("q4_0"), 0.00738, 0.0004);
  EXPECT_NEAR(error("int2"), 0.251, 0.012);
}

TEST(ReferenceCodec, RotationSpreadsOutlierChannels) {
  Random random(2);
  std::vector<float> values = Gaussian(&random, 256 * 128);
  for (size_t t = 0; t < 256; ++t) {
    for (size_t c = 0; c < 4; ++c) values[t * 128 + c * 30] *= 7;
  }
  const double plain =
      RelativeError(ParseKvFormat("k=bf16,v=int4:token_head:zp").v, values, 256, 128);
  const double rotated =
      RelativeError(ParseKvFormat("k=bf16,v=int4:token_head:zp:hadamard").v, values, 256, 128);
  EXPECT_NEAR(plain, 0.0389, 0.008);
  EXPECT_NEAR(rotated, 0.0084, 0.0015);
}

TEST(ReferenceCodec, EveryCodeIsReachableAndNoneBeyond) {
  Random random(3);
  for (const char* text : {"k=bf16,v=int8:token_head:zp", "k=bf16,v=int4:token_head:zp",
                           "k=bf16,v=int2:token_head:zp"}) {
    const StreamFormat stream = ParseKvFormat(text).v;
    const auto levels = static_cast<int32_t>((1U << CodecBits(stream.codec)) - 1);
    std::set<int32_t> seen;
    std::vector<float> values(64 * 512);
    for (float& x : values) x = static_cast<float>(random.Uniform());
    for (const int32_t code : QuantizeReference(stream, values, 64, 512, {}).codes) {
      EXPECT_GE(code, 0);
      EXPECT_LE(code, levels);
      seen.insert(code);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(levels) + 1) << text;
  }
}

TEST(ReferenceCodec, ErrorsAreWithinHalfAStep) {
  Random random(4);
  const std::vector<float> values = Gaussian(&random, 64 * 64);
  for (const char* text : {"int8", "int4", "int2", "q8_0", "int8_per_token_head",
                           "k=bf16,v=int4:token_head:zp:fp32_scale"}) {
    for (StreamFormat stream : {ParseKvFormat(text).k, ParseKvFormat(text).v}) {
      if (!IsQuantized(stream.codec)) continue;
      stream.hadamard = false;
      const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, {});
      const std::vector<double> read = DequantizeReference(stream, matrix);
      for (size_t i = 0; i < read.size(); ++i) {
        EXPECT_LE(std::fabs(read[i] - values[i]), matrix.scale[i] * 0.5 + 1e-12) << text;
      }
    }
  }
}

TEST(ReferenceCodec, HardVectorsStayFinite) {
  for (const char* text :
       {"int8", "int4", "int2", "q8_0", "q4_0", "fp8_e4m3", "fp8_e5m2", "fp8_per_token_head",
        "int8_per_token_head", "int4_per_token_head", "k=int4:token_head:zp:block_mean,v=int8"}) {
    for (const float fill : {0.0F, 1.0F, -7.5F, 1e-40F, 3e38F, 9e29F, 65504.0F}) {
      for (const float spike : {0.0F, 100.0F, -3e38F}) {
        std::vector<float> values(64 * 64, fill);
        values[130] += spike;
        for (const StreamFormat& stream : {ParseKvFormat(text).k, ParseKvFormat(text).v}) {
          const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, {});
          for (const double x : DequantizeReference(stream, matrix)) {
            EXPECT_TRUE(std::isfinite(x)) << text << " " << fill << " " << spike;
          }
        }
      }
    }
  }
}

TEST(ReferenceCodec, ConstantsAreKeptToFp16) {
  const std::vector<float> values(64 * 64, 3.14159F);
  for (const char* text : {"int8", "k=bf16,v=int4:token_head:zp"}) {
    const StreamFormat stream = ParseKvFormat(text).v;
    const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, {});
    for (const double x : DequantizeReference(stream, matrix)) EXPECT_NEAR(x, 3.14159, 0.002);
  }
}

TEST(ReferenceCodec, NonFiniteValuesAreReplacedAndCounted) {
  std::vector<float> values(64 * 64, 1.0F);
  values[0] = std::numeric_limits<float>::quiet_NaN();
  values[1] = std::numeric_limits<float>::infinity();
  const QuantizedMatrix matrix = QuantizeReference(ParseKvFormat("fp8_e4m3").k, values, 64, 64, {});
  EXPECT_EQ(matrix.counts.non_finite, 2U);
  EXPECT_EQ(matrix.counts.saturated, 1U);
  EXPECT_EQ(DequantizeReference(ParseKvFormat("fp8_e4m3").k, matrix)[0], 0.0);
}

TEST(ReferenceCodec, SaturationIsCounted) {
  std::vector<float> values(64 * 64, 1.0F);
  values[5] = 448.0F;
  values[6] = 449.0F;
  values[7] = -10000.0F;
  const QuantizedMatrix matrix = QuantizeReference(ParseKvFormat("fp8_e4m3").k, values, 64, 64, {});
  EXPECT_EQ(matrix.counts.saturated, 2U);
  const StreamFormat clipped = ParseKvFormat("k=bf16,v=int8:token_head:zp:clip0.5").v;
  std::vector<float> ramp(64 * 64);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i % 64);
  EXPECT_GT(QuantizeReference(clipped, ramp, 64, 64, {}).counts.clipped, 64U * 20);
}

TEST(ReferenceCodec, Q40KeepsTheExtremeExactly) {
  std::vector<float> values(64 * 64, 0.1F);
  values[3] = -8.0F;
  const StreamFormat stream = ParseKvFormat("q4_0").k;
  const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, {});
  EXPECT_EQ(matrix.codes[3], 0);
  EXPECT_EQ(DequantizeReference(stream, matrix)[3], -8.0);
}

TEST(ReferenceCodec, ThePackedZeroPointIsNotPartOfTheScale) {
  Random random(5);
  const std::vector<float> values = Gaussian(&random, 64 * 64);
  StreamFormat stream = ParseKvFormat("int4_per_token_head").k;
  stream.hadamard = false;
  const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, {});
  for (size_t i = 0; i < matrix.codes.size(); ++i) {
    const auto scale = static_cast<float>(matrix.scale[i]);
    uint32_t bits = 0;
    std::memcpy(&bits, &scale, sizeof(bits));
    EXPECT_EQ(bits & 15U, 0U);
    const double zero = -matrix.offset[i] / matrix.scale[i];
    EXPECT_NEAR(zero, std::round(zero), 1e-9);
  }
}

TEST(ReferenceCodec, StaticScalesAreTheOnesGiven) {
  Random random(6);
  const std::vector<float> values = Gaussian(&random, 64 * 64);
  std::vector<float> scales(64);
  for (size_t d = 0; d < 64; ++d) scales[d] = 0.01F + 0.001F * static_cast<float>(d);
  const StreamFormat stream = ParseKvFormat("int8:static:channel").k;
  const QuantizedMatrix matrix = QuantizeReference(stream, values, 64, 64, scales);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(matrix.scale[i], scales[i % 64]);
  }
}

}  // namespace
}  // namespace kvant
