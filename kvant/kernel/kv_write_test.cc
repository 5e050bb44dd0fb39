#include "kvant/kernel/kv_write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/kv_cache_fixture.h"
#include "kvant/kernel/kv_read_back.h"

namespace kvant {
namespace {

constexpr uint32_t kHeads = 2;

enum class Shape { kNormal, kConstant, kOneHot, kOutliers, kZero, kDenormal, kHuge, kNonFinite };

std::vector<float> MakeValues(Shape shape, size_t size, Random* random) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    const auto x = static_cast<float>(random->Normal());
    switch (shape) {
      case Shape::kNormal:
        values[i] = x;
        break;
      case Shape::kConstant:
        values[i] = 3.25F;
        break;
      case Shape::kOneHot:
        values[i] = i % 61 == 5 ? 40.0F : 0.0F;
        break;
      case Shape::kOutliers:
        values[i] = i % 64 < 3 ? 200.0F + x : x;
        break;
      case Shape::kZero:
        values[i] = 0;
        break;
      case Shape::kDenormal:
        values[i] = x * 1e-40F;
        break;
      case Shape::kHuge:  // beyond fp16, and beyond what an fp16 scale can hold
        values[i] = x * (i % 53 == 0 ? 1e20F : 1e5F);
        break;
      case Shape::kNonFinite:
        values[i] = i % 97 == 0   ? std::numeric_limits<float>::infinity()
                    : i % 89 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : x;
        break;
    }
  }
  return values;
}

// One head's [tokens, head_dim] out of [tokens, kHeads, head_dim], as the 16-bit form keeps it:
// that form, not the float32 input, is what sealing quantizes.
std::vector<float> HeadValues(const std::vector<float>& values, uint32_t head, uint32_t head_dim,
                              Codec open_codec, bool round) {
  std::vector<float> out;
  for (size_t t = 0; t * kHeads * head_dim < values.size(); ++t) {
    for (uint32_t d = 0; d < head_dim; ++d) {
      float x = values[(t * kHeads + head) * head_dim + d];
      if (round) {
        if (open_codec == Codec::kBf16) x = FloatFromBf16(Bf16FromFloat(x));
        if (open_codec == Codec::kFp16) x = FloatFromFp16(Fp16FromFloat(x));
      }
      out.push_back(x);
    }
  }
  return out;
}

std::vector<float> HeadScalesOf(std::span<const float> scales, uint32_t head, uint32_t head_dim) {
  if (scales.size() == kHeads) return {scales[head]};
  if (scales.size() == kHeads * head_dim) {
    return {scales.begin() + head * head_dim, scales.begin() + (head + 1) * head_dim};
  }
  return {scales.begin(), scales.end()};
}

// Compares one stream of one block with the reference codec. A code may differ by one where
// float32 and float64 fall on different sides of a rounding boundary; that must be rare. The
// exception: constant and one-hot vectors, rotated, have all their values exactly on one.
// Returns what the reference counted.
QuantizeCounts ExpectLikeReference(const StreamFormat& stream, Shape shape,
                                   const std::vector<float>& input,
                                   const std::vector<float>& static_scale, uint32_t head_dim,
                                   const std::vector<double>& got, const std::string& what) {
  const bool all_ties = stream.hadamard && (shape == Shape::kConstant || shape == Shape::kOneHot);
  const QuantizedMatrix matrix =
      QuantizeReference(stream, input, kBlockTokens, head_dim, static_scale);
  const std::vector<double> expected = DequantizeReference(stream, matrix);
  EXPECT_EQ(got.size(), expected.size());
  if (!IsQuantized(stream.codec) || got.size() != expected.size()) return matrix.counts;
  double largest_scale = 0;
  for (const double scale : matrix.scale) {
    largest_scale = std::max(largest_scale, std::fabs(scale));
  }
  size_t different = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double step = std::fabs(matrix.scale[i]);
    if (stream.codec == Codec::kFp8E4m3) step = std::fabs(expected[i]) / 8 + matrix.scale[i] / 512;
    if (stream.codec == Codec::kFp8E5m2) {
      step = std::fabs(expected[i]) / 4 + matrix.scale[i] / 65536;
    }
    if (stream.hadamard) {  // a code's difference spreads over the whole vector
      step = std::max(step, largest_scale);
    }
    if (all_ties) step *= std::sqrt(head_dim);
    const double difference = std::fabs(got[i] - expected[i]);
    const double rounding = 1e-5 * (std::fabs(expected[i]) + step) + 1e-30;
    EXPECT_LE(difference, 1.01 * step + rounding) << what << " value " << i;
    different += difference > 0.2 * step + rounding ? 1 : 0;
  }
  if (!all_ties) {
    EXPECT_LE(different, got.size() / 100) << what;
  }
  return matrix.counts;
}

// A value on the boundary may count or not, as its code may differ; that must be rare.
void ExpectLikeCounts(const QuantizeCounts& got, const QuantizeCounts& expected,
                      const std::string& what) {
  const auto rare = static_cast<double>(expected.values) / 1000;
  EXPECT_NEAR(static_cast<double>(got.saturated), static_cast<double>(expected.saturated), rare)
      << what;
  EXPECT_NEAR(static_cast<double>(got.clipped), static_cast<double>(expected.clipped), rare)
      << what;
}

void CheckFormat(const std::string& text, Shape shape, uint32_t head_dim) {
  Random random(static_cast<uint64_t>(shape) * 1000 + head_dim);
  const KvFormat format = ParseKvFormat(text);
  KvCacheFixture cache(format, {kHeads, head_dim, 3 * kBlockTokens}, 1);
  const size_t width = size_t{kHeads} * head_dim;
  const std::vector<float> k = MakeValues(shape, 2 * kBlockTokens * width, &random);
  const std::vector<float> v = MakeValues(shape, 2 * kBlockTokens * width, &random);
  cache.Write(k, v, 2 * kBlockTokens);
  const bool append = format.write == WriteMode::kAppend;
  LayerCounts expected;
  for (uint32_t head = 0; head < kHeads; ++head) {
    for (uint64_t block = 0; block < 2; ++block) {
      const BlockValues got = ReadBack(cache.cache(), block, head, false);
      const size_t begin = block * kBlockTokens * width;
      const size_t end = begin + kBlockTokens * width;
      const std::vector<float> k_block(k.begin() + static_cast<ptrdiff_t>(begin),
                                       k.begin() + static_cast<ptrdiff_t>(end));
      const std::vector<float> v_block(v.begin() + static_cast<ptrdiff_t>(begin),
                                       v.begin() + static_cast<ptrdiff_t>(end));
      const std::string what = text + " shape " + std::to_string(static_cast<int>(shape)) +
                               " head_dim " + std::to_string(head_dim) + " head " +
                               std::to_string(head);
      AddCounts(ExpectLikeReference(format.k, shape,
                                    HeadValues(k_block, head, head_dim, OpenCodec(format.k),
                                               !append && IsQuantized(format.k.codec)),
                                    HeadScalesOf(cache.cache().k_scales, head, head_dim), head_dim,
                                    got.k, what + " K"),
                &expected.k);
      AddCounts(ExpectLikeReference(format.v, shape,
                                    HeadValues(v_block, head, head_dim, OpenCodec(format.v),
                                               !append && IsQuantized(format.v.codec)),
                                    HeadScalesOf(cache.cache().v_scales, head, head_dim), head_dim,
                                    got.v, what + " V"),
                &expected.v);
    }
  }
  const std::string what = text + " shape " + std::to_string(static_cast<int>(shape));
  ExpectLikeCounts(cache.counts().k, expected.k, what + " K");
  ExpectLikeCounts(cache.counts().v, expected.v, what + " V");
}

TEST(KvWrite, EveryFormatMatchesItsReferenceCodec) {
  for (const char* format : {"fp8_e4m3",
                             "fp8_e5m2",
                             "fp8_e4m3:static",
                             "fp8_e4m3:static:head",
                             "fp8_e4m3:static:channel",
                             "fp8_per_token_head",
                             "int8_per_token_head",
                             "int4_per_token_head",
                             "int8",
                             "int4",
                             "int2",
                             "q8_0",
                             "q4_0",
                             "int8:static",
                             "int8:static:head",
                             "int8:static:channel",
                             "int4:static:channel",
                             "k=int4:token_head:zp:hadamard:block_mean,v=int8",
                             "k=int8:token_head:zp:fp32_scale,v=int8:token_head:zp:fp32_scale",
                             "k=int8:channel:zp:clip0.9,v=int8"}) {
    for (const Shape shape : {Shape::kNormal, Shape::kConstant, Shape::kOneHot, Shape::kOutliers,
                              Shape::kZero, Shape::kDenormal}) {
      CheckFormat(format, shape, 64);
    }
  }
  for (const uint32_t head_dim : {80U, 96U, 112U, 128U, 192U, 256U}) {
    for (const char* format : {"int8", "int4", "q8_0", "fp8_e4m3", "int4_per_token_head"}) {
      if (std::string(format) == "q8_0" && head_dim % 32 != 0) continue;  // not a valid format
      CheckFormat(format, Shape::kNormal, head_dim);
    }
  }
}

TEST(KvWrite, ValuesBeyondTheFormatAreCountedAsByTheReference) {
  for (const char* format :
       {"fp16", "int8", "q8_0", "q4_0", "fp8_e4m3", "int8:static", "int8_per_token_head",
        "fp8_per_token_head", "k=int8:channel:zp:clip0.9,v=int8",
        "k=int4:group32:fp32_scale,v=int4:group32:fp32_scale",
        "k=int4:token_head:zp:packed_scale,v=int4:token_head:zp:packed_scale"}) {
    CheckFormat(format, Shape::kHuge, 64);
  }
}

TEST(KvWrite, NonFiniteValuesAreReplacedAndCounted) {
  for (const char* format : {"bf16", "fp16", "fp32", "int8", "fp8_e4m3", "int4_per_token_head"}) {
    Random random(4);
    KvCacheFixture cache(ParseKvFormat(format), {kHeads, 64, 64}, 1);
    const std::vector<float> values =
        MakeValues(Shape::kNonFinite, size_t{kHeads} * 64 * 64, &random);
    cache.Write(values, values, 64);
    const auto bad = static_cast<uint64_t>(
        std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); }));
    EXPECT_EQ(cache.counts().k.non_finite, bad) << format;
    EXPECT_EQ(cache.counts().v.non_finite, bad) << format;
    EXPECT_EQ(cache.counts().k.values, values.size()) << format;
    const bool open = cache.layout().format.write == WriteMode::kSealed;
    for (const double x : ReadBack(cache.cache(), 0, 0, open).k) {
      EXPECT_TRUE(std::isfinite(x)) << format;
    }
  }
}

TEST(KvWrite, SaturationIsCountedExactly) {
  KvCacheFixture cache(ParseKvFormat("fp8_e4m3"), {1, 64, 64}, 1);
  std::vector<float> values(64 * 64, 1.0F);
  values[7] = 449.0F;
  values[100] = -1000.0F;
  values[200] = 448.0F;
  cache.Write(values, std::vector<float>(64 * 64, 1.0F), 64);
  EXPECT_EQ(cache.counts().k.saturated, 2U);
  EXPECT_EQ(cache.counts().v.saturated, 0U);
}

TEST(KvWrite, AppendingOneByOneEqualsAppendingAll) {
  for (const char* format :
       {"fp8_e4m3", "int8_per_token_head", "int4_per_token_head", "fp8_per_token_head"}) {
    Random random(8);
    const std::vector<float> values = MakeValues(Shape::kNormal, 100 * 64, &random);
    KvCacheFixture whole(ParseKvFormat(format), {1, 64, 128}, 1);
    KvCacheFixture single(ParseKvFormat(format), {1, 64, 128}, 1);
    whole.Write(values, values, 100);
    for (size_t t = 0; t < 100; ++t) {
      const std::vector<float> token(values.begin() + static_cast<ptrdiff_t>(t * 64),
                                     values.begin() + static_cast<ptrdiff_t>((t + 1) * 64));
      single.Write(token, token, 1);
    }
    for (uint64_t block = 0; block < 2; ++block) {
      EXPECT_EQ(ReadBack(whole.cache(), block, 0, false).k,
                ReadBack(single.cache(), block, 0, false).k)
          << format;
      EXPECT_EQ(ReadBack(whole.cache(), block, 0, false).v,
                ReadBack(single.cache(), block, 0, false).v)
          << format;
    }
  }
}

TEST(KvWrite, RemovedBiasComesBack) {
  Random random(6);
  KvCacheFixture plain(ParseKvFormat("fp32"), {1, 64, 192}, 2);
  KvCacheFixture centred(ParseKvFormat("int8+bias_removed"), {1, 64, 192}, 2);
  // K = noise + RoPE'd bias, as a biased projection gives it.
  std::vector<float> k;
  for (size_t t = 0; t < 192; ++t) {
    std::vector<float> bias(centred.cache().k_bias.begin(), centred.cache().k_bias.end());
    ApplyRope(*centred.cache().rope, t, bias);
    for (float& x : bias) x += static_cast<float>(random.Normal());
    k.insert(k.end(), bias.begin(), bias.end());
  }
  const std::vector<float> v = MakeValues(Shape::kNormal, 192 * 64, &random);
  centred.Write(k, v, 192);
  const BlockValues got = ReadBack(centred.cache(), 1, 0, false);
  for (size_t i = 0; i < got.k.size(); ++i) {
    // The noise spans about ±4: an 8-bit step is about 0.03. Without centring the span is ±100.
    EXPECT_NEAR(got.k[i], k[64 * 64 + i], 0.04);
  }
}

TEST(KvLayout, BitsPerValueAreTheFormats) {
  for (const uint32_t head_dim : {64U, 80U, 128U, 256U}) {
    for (const char* text :
         {"bf16", "fp32", "fp8_e4m3", "int8", "int4", "int2", "q8_0", "q4_0", "int8_per_token_head",
          "int4_per_token_head", "k=int4:token_head:zp:block_mean,v=int8"}) {
      if (std::string(text).front() == 'q' && head_dim % 32 != 0) continue;
      const KvFormat format = ParseKvFormat(text);
      const LayerLayout layout = MakeLayerLayout(format, 3, head_dim);
      const double values = 3.0 * head_dim * kBlockTokens;
      EXPECT_DOUBLE_EQ(
          static_cast<double>(layout.sealed_bytes) * 8,
          values * (BitsPerValue(format.k, head_dim) + BitsPerValue(format.v, head_dim)))
          << text;
    }
  }
}

}  // namespace
}  // namespace kvant
