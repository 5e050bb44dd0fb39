#include "kvant/kernel/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/core/scalar.h"
#include "kvant/kernel/kv_cache_fixture.h"
#include "kvant/kernel/kv_read_back.h"

namespace kvant {
namespace {

constexpr size_t kMaxPartials = 4096;

std::vector<float> RandomVector(Random* random, size_t size, double scale) {
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(random->Normal() * scale);
  return values;
}

// softmax(q·K)·V in float64 over what the cache's bytes mean, block by block as the position sees
// them. q is taken as it is: formats that round q or p are tested by themselves.
std::vector<double> ReferenceAttention(const AttentionShape& shape, const LayerCache& cache,
                                       uint64_t position, const float* q) {
  const size_t head_dim = shape.head_dim;
  const size_t group = shape.num_query_heads / shape.num_kv_heads;
  std::vector<double> output(size_t{shape.num_query_heads} * head_dim);
  for (uint32_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    std::vector<double> keys;
    std::vector<double> values;
    const uint64_t query_block = position / kBlockTokens;
    for (uint64_t b = 0; b <= query_block; ++b) {
      const BlockValues block =
          ReadBack(cache, b, kv_head, SeesOpenForm(cache.layout->format, b, query_block));
      keys.insert(keys.end(), block.k.begin(), block.k.end());
      values.insert(values.end(), block.v.begin(), block.v.end());
    }
    for (size_t g = 0; g < group; ++g) {
      const size_t head = kv_head * group + g;
      std::vector<double> scores(position + 1, -INFINITY);
      double largest = -INFINITY;
      for (uint64_t t = 0; t <= position; ++t) {
        if (shape.window_tokens != 0 && position - t >= shape.window_tokens) continue;
        double score = 0;
        for (size_t d = 0; d < head_dim; ++d) {
          score += static_cast<double>(q[head * head_dim + d]) * keys[t * head_dim + d];
        }
        scores[t] = score * shape.softmax_scale;
        largest = std::max(largest, scores[t]);
      }
      double sum = 0;
      for (double& s : scores) sum += s = std::exp(s - largest);
      for (uint64_t t = 0; t <= position; ++t) {
        for (size_t d = 0; d < head_dim; ++d) {
          output[head * head_dim + d] += scores[t] / sum * values[t * head_dim + d];
        }
      }
    }
  }
  return output;
}

struct Case {
  std::string format;
  uint32_t num_kv_heads;
  uint32_t group;
  uint32_t head_dim;
  uint64_t tokens;
  uint64_t window;
};

// Largest error relative to the largest output, over some positions of a prompt.
double WorstError(const Case& test, uint64_t seed, double value_scale) {
  Random random(seed);
  const AttentionShape shape = {test.num_kv_heads * test.group, test.num_kv_heads, test.head_dim,
                                1.0F / std::sqrt(static_cast<float>(test.head_dim)), test.window};
  KvCacheFixture cache(ParseKvFormat(test.format), {test.num_kv_heads, test.head_dim, test.tokens},
                       seed);
  const size_t kv_width = size_t{test.num_kv_heads} * test.head_dim;
  const size_t q_width = size_t{shape.num_query_heads} * test.head_dim;
  cache.Write(RandomVector(&random, test.tokens * kv_width, value_scale),
              RandomVector(&random, test.tokens * kv_width, value_scale), test.tokens);
  const std::vector<float> q = RandomVector(&random, test.tokens * q_width, 1.0);
  std::vector<float> output(q.size());
  ThreadPool pool(2);
  AttentionWorkspace workspace(test.head_dim, 2, kMaxPartials);
  // A query near the start of a later chunk still finds its own block open in this fixture only
  // if the block is the last one: earlier blocks keep both forms here.
  const AttentionQueries queries = {cache.cache(), 0, test.tokens, q.data(), output.data()};
  Attend(shape, std::span(&queries, 1), pool, workspace);
  double worst = 0;
  for (uint64_t position : {uint64_t{0}, test.tokens / 3, test.tokens / 2, test.tokens - 1}) {
    const std::vector<double> expected =
        ReferenceAttention(shape, cache.cache(), position, q.data() + position * q_width);
    double largest = 1e-9;
    for (const double x : expected) largest = std::max(largest, std::fabs(x));
    for (size_t i = 0; i < q_width; ++i) {
      const double error = std::fabs(output[position * q_width + i] - expected[i]) / largest;
      EXPECT_TRUE(std::isfinite(output[position * q_width + i]));
      worst = std::max(worst, error);
    }
  }
  return worst;
}

// float32 accumulation over head_dim 64 and a few thousand tokens; independent roundings grow with
// the square root of the products summed in a score.
constexpr double kFloat32Tolerance = 2e-5;
double ToleranceAt(uint32_t head_dim) { return kFloat32Tolerance * std::sqrt(head_dim / 64.0); }

TEST(Attention, EveryFormatMatchesFloat64OnTheSameCodes) {
  for (const char* format : {"fp32",
                             "bf16",
                             "fp16",
                             "fp8_e4m3",
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
                             "int8:static:channel",
                             "int8:static:head",
                             "int8:static",
                             "int4:static:channel",
                             "int8+bias_removed",
                             "int4+bias_removed",
                             "bf16+bias_removed",
                             "k=int4:token_head:zp:hadamard:block_mean,v=int8",
                             "k=bf16,v=int4:token_head:zp:hadamard",
                             "k=int8:channel:zp,v=bf16",
                             "int4,sink_tokens=64,recent_tokens=128"}) {
    EXPECT_LT(WorstError({format, 2, 3, 64, 300, 0}, 11, 1.0), kFloat32Tolerance) << format;
  }
}

TEST(Attention, EveryHeadSizeAndGroupAndLengthMatchesFloat64) {
  for (const uint32_t head_dim : {64U, 80U, 96U, 112U, 128U, 192U, 256U}) {
    for (const char* format : {"bf16", "int8", "int4"}) {
      EXPECT_LT(WorstError({format, 1, 2, head_dim, 130, 0}, head_dim, 1.0), ToleranceAt(head_dim))
          << format << " head_dim " << head_dim;
    }
  }
  for (uint32_t group = 1; group <= 16; ++group) {
    EXPECT_LT(WorstError({"int8", 1, group, 64, 150, 0}, group, 1.0), kFloat32Tolerance) << group;
  }
  for (const uint64_t tokens : {1U, 63U, 64U, 65U, 1023U, 1024U, 1025U, 2500U, 4097U}) {
    EXPECT_LT(WorstError({"int4", 1, 1, 64, tokens, 0}, tokens, 1.0), kFloat32Tolerance) << tokens;
  }
}

TEST(Attention, SlidingWindowsSeeExactlyTheirTokens) {
  for (const uint64_t window : {1U, 2U, 63U, 64U, 65U, 128U, 200U, 512U}) {
    for (const char* format : {"bf16", "int8", "fp8_e4m3"}) {
      EXPECT_LT(WorstError({format, 1, 2, 64, 400, window}, window, 1.0), kFloat32Tolerance)
          << format << " window " << window;
    }
  }
}

TEST(Attention, LargeScoresStayFinite) {
  for (const char* format : {"bf16", "int8", "int4", "fp8_e4m3", "int8+bias_removed"}) {
    // Scores of hundreds: the softmax is one-hot, and float32 rounding of the score shows up
    // multiplied by its size.
    EXPECT_LT(WorstError({format, 1, 3, 64, 200, 0}, 5, 30.0), 5e-3) << format;
  }
}

// Everything that can change how work is divided, and nothing else.
TEST(Attention, BatchThreadsAndChunksChangeNoBit) {
  for (const char* format : {"bf16", "int8", "int4", "fp8_e4m3", "int8+bias_removed"}) {
    const AttentionShape shape = {6, 2, 64, 0.125F, 0};
    const uint64_t tokens = 2200;
    Random random(3);
    KvCacheFixture cache(ParseKvFormat(format), {2, 64, tokens}, 3);
    cache.Write(RandomVector(&random, tokens * 128, 1.0), RandomVector(&random, tokens * 128, 1.0),
                tokens);
    const size_t width = 6 * 64;
    const std::vector<float> q = RandomVector(&random, tokens * width, 1.0);
    std::vector<float> whole(q.size());
    {
      ThreadPool pool(1);
      AttentionWorkspace workspace(64, 1, kMaxPartials);
      const AttentionQueries all = {cache.cache(), 0, tokens, q.data(), whole.data()};
      Attend(shape, std::span(&all, 1), pool, workspace);
    }
    ThreadPool pool(2);
    AttentionWorkspace workspace(64, 2, kMaxPartials);
    std::vector<float> pieces(q.size());
    for (uint64_t first = 0; first < tokens;) {
      const uint64_t count = std::min<uint64_t>(1 + random.Below(300), tokens - first);
      const AttentionQueries piece = {cache.cache(), first, count, q.data() + first * width,
                                      pieces.data() + first * width};
      Attend(shape, std::span(&piece, 1), pool, workspace);
      first += count;
    }
    EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)), 0) << format;

    std::vector<AttentionQueries> batch;
    std::vector<float> decoded(8 * width);
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t position = tokens - 1 - i * 250;
      batch.push_back(
          {cache.cache(), position, 1, q.data() + position * width, decoded.data() + i * width});
    }
    Attend(shape, batch, pool, workspace);
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t position = tokens - 1 - i * 250;
      EXPECT_EQ(std::memcmp(decoded.data() + i * width, whole.data() + position * width,
                            width * sizeof(float)),
                0)
          << format << " position " << position;
    }
  }
}

TEST(Attention, RoundingTheQueryIsFlashAttention3s) {
  // With one visible token the output is its V whatever the score, so look at two.
  const AttentionShape shape = {1, 1, 64, 1.0F, 0};
  Random random(9);
  KvCacheFixture rounded(ParseKvFormat("k=fp8_e4m3:tensor:unit,v=bf16,write=append,q=fp8_e4m3"),
                         {1, 64, 2}, 9);
  const std::vector<float> k = RandomVector(&random, 128, 0.3);
  const std::vector<float> v = RandomVector(&random, 128, 1.0);
  rounded.Write(k, v, 2);
  std::vector<float> q = RandomVector(&random, 64, 1.0);
  std::vector<float> output(64);
  ThreadPool pool(1);
  AttentionWorkspace workspace(64, 1, 0);
  const AttentionQueries queries = {rounded.cache(), 1, 1, q.data(), output.data()};
  Attend(shape, std::span(&queries, 1), pool, workspace);
  for (float& x : q) x = FloatFromFp8E4m3(Fp8E4m3FromFloat(x));
  const std::vector<double> expected = ReferenceAttention(shape, rounded.cache(), 1, q.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(output[i], expected[i], 1e-5);
}

TEST(Attention, RoundingTheProbabilitiesCostsAtMostTheirStep) {
  const AttentionShape shape = {1, 1, 64, 0.125F, 0};
  Random random(10);
  KvCacheFixture cache(ParseKvFormat("k=bf16,v=fp8_e4m3:tensor:unit,write=append,p=fp8_e4m3"),
                       {1, 64, 100}, 10);
  cache.Write(RandomVector(&random, 6400, 1.0), RandomVector(&random, 6400, 1.0), 100);
  const std::vector<float> q = RandomVector(&random, 64, 1.0);
  std::vector<float> output(64);
  ThreadPool pool(1);
  AttentionWorkspace workspace(64, 1, 0);
  const AttentionQueries queries = {cache.cache(), 99, 1, q.data(), output.data()};
  Attend(shape, std::span(&queries, 1), pool, workspace);
  const std::vector<double> expected = ReferenceAttention(shape, cache.cache(), 99, q.data());
  double difference = 0;
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(output[i], expected[i], 4.0 / 16);
    difference += std::fabs(output[i] - expected[i]);
  }
  EXPECT_GT(difference, 1e-4) << "the probabilities were not rounded at all";
}

}  // namespace
}  // namespace kvant
