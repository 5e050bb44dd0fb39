// Writing the cache: tokens per second into open (or append) blocks, and sealing of full blocks.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench/random_vector.h"
#include "kvant/kernel/kv_cache_fixture.h"

namespace kvant {
namespace {

constexpr uint32_t kNumKvHeads = 2;
constexpr uint32_t kHeadDim = 64;
constexpr const char* kFormats[] = {"bf16", "fp8_e4m3", "int8",
                                    "int4", "q8_0",     "int4_per_token_head"};
constexpr const char* kSealedFormats[] = {"int8", "int4", "q8_0", "q4_0"};

void CountTokens(benchmark::State& state) {
  const auto tokens = static_cast<double>(kBlockTokens);
  // 4-byte values of K and V that go in.
  const double bytes_in = tokens * kNumKvHeads * kHeadDim * 2 * sizeof(float);
  using benchmark::Counter;
  state.counters["tokens/s"] = Counter(tokens, Counter::kIsIterationInvariantRate);
  state.counters["GB/s in"] = Counter(bytes_in / 1e9, Counter::kIsIterationInvariantRate);
}

// Argument: index in kFormats. One block of tokens is written to the same place again and again.
void BM_Write(benchmark::State& state) {
  const KvFormat format = ParseKvFormat(kFormats[state.range(0)]);
  KvCacheFixture fixture(format, {kNumKvHeads, kHeadDim, kBlockTokens}, 1);
  const size_t stride = size_t{kNumKvHeads} * kHeadDim;
  const std::vector<float> k = RandomVector(1, kBlockTokens * stride);
  const std::vector<float> v = RandomVector(2, kBlockTokens * stride);
  KvWriteScratch scratch;
  LayerCounts counts;
  for (auto _ : state) {
    for (uint32_t head = 0; head < kNumKvHeads; ++head) {
      WriteTokens(fixture.cache(), head, 0, kBlockTokens, k.data() + head * kHeadDim,
                  v.data() + head * kHeadDim, stride, &scratch, &counts);
    }
    benchmark::ClobberMemory();
  }
  state.SetLabel(kFormats[state.range(0)]);
  CountTokens(state);
}
BENCHMARK(BM_Write)->ArgName("format")->DenseRange(0, std::size(kFormats) - 1);

// Argument: index in kSealedFormats.
void BM_Seal(benchmark::State& state) {
  const KvFormat format = ParseKvFormat(kSealedFormats[state.range(0)]);
  KvCacheFixture fixture(format, {kNumKvHeads, kHeadDim, kBlockTokens}, 1);
  const size_t values = size_t{kBlockTokens} * kNumKvHeads * kHeadDim;
  fixture.Write(RandomVector(1, values), RandomVector(2, values), kBlockTokens);
  KvWriteScratch scratch;
  LayerCounts counts;
  for (auto _ : state) {
    for (uint32_t head = 0; head < kNumKvHeads; ++head) {
      SealBlock(fixture.cache(), 0, head, &scratch, &counts);
    }
    benchmark::ClobberMemory();
  }
  state.SetLabel(kSealedFormats[state.range(0)]);
  CountTokens(state);
}
BENCHMARK(BM_Seal)->ArgName("format")->DenseRange(0, std::size(kSealedFormats) - 1);

}  // namespace
}  // namespace kvant

BENCHMARK_MAIN();
