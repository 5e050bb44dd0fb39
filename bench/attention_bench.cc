// Decode attention over one layer's cache: milliseconds per query, cache bytes read per second, and
// that rate as a share of what plain reading of memory reaches in the same run.
//
// Each iteration attends from the last position of one of several caches in turn, so that together
// they exceed the last-level cache: a decoding step reads every layer once before it comes back.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/random_vector.h"
#include "bench/read_bandwidth.h"
#include "kvant/core/thread_pool.h"
#include "kvant/kernel/attention.h"
#include "kvant/kernel/isa.h"
#include "kvant/kernel/kv_cache_fixture.h"

namespace kvant {
namespace {

constexpr uint32_t kNumKvHeads = 2;
constexpr uint32_t kHeadDim = 64;
// The caches together: more than a last-level cache holds.
constexpr uint64_t kCachesBytes = 64ULL << 20;
constexpr const char* kFormats[] = {"bf16", "fp8_e4m3", "int8",
                                    "int4", "q8_0",     "int4_per_token_head"};

// Codes, scales and offsets that a query at the last position reads.
uint64_t BytesRead(const LayerLayout& layout, uint64_t tokens) {
  const uint64_t last = (tokens - 1) / kBlockTokens;
  uint64_t bytes = 0;
  for (uint64_t block = 0; block <= last; ++block) {
    bytes += SeesOpenForm(layout.format, block, last) ? layout.open_bytes : layout.sealed_bytes;
  }
  return bytes;
}

using Caches = std::vector<std::unique_ptr<KvCacheFixture>>;

Caches MakeCaches(const KvFormat& format, uint64_t tokens) {
  const size_t values = tokens * kNumKvHeads * kHeadDim;
  const std::vector<float> k = RandomVector(1, values);
  const std::vector<float> v = RandomVector(2, values);
  Caches caches;
  uint64_t bytes = 0;
  while (bytes < kCachesBytes) {
    caches.push_back(std::make_unique<KvCacheFixture>(
        format, CacheShape{kNumKvHeads, kHeadDim, tokens}, caches.size() + 1));
    caches.back()->Write(k, v, tokens);
    bytes += BytesRead(caches.back()->layout(), tokens);
  }
  return caches;
}

// Those of the benchmark that ran last are kept: building them takes longer than measuring.
const Caches& CachesOf(int64_t format, uint64_t tokens) {
  static Caches caches;
  static std::pair<int64_t, uint64_t> built = {-1, 0};
  if (built != std::pair(format, tokens)) {
    caches.clear();
    caches = MakeCaches(ParseKvFormat(kFormats[format]), tokens);
    built = {format, tokens};
  }
  return caches;
}

// Arguments: index in kFormats, tokens of context, query heads per KV head.
void BM_DecodeAttention(benchmark::State& state) {
  const auto tokens = static_cast<uint64_t>(state.range(1));
  const uint32_t num_query_heads = kNumKvHeads * static_cast<uint32_t>(state.range(2));
  const Caches& caches = CachesOf(state.range(0), tokens);
  const AttentionShape shape = {num_query_heads, kNumKvHeads, kHeadDim, 0.125F, 0};
  const std::vector<float> query = RandomVector(3, size_t{num_query_heads} * kHeadDim);
  std::vector<float> output(query.size());
  ThreadPool pool(NumThreads());
  AttentionWorkspace workspace(kHeadDim, pool.num_threads(),
                               num_query_heads * NumPartitions(shape, tokens - 1));

  size_t next = 0;
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    const AttentionQueries queries = {caches[next]->cache(), tokens - 1, 1, query.data(),
                                      output.data()};
    Attend(shape, std::span(&queries, 1), pool, workspace);
    benchmark::DoNotOptimize(output.data());
    next = (next + 1) % caches.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  const auto bytes = static_cast<double>(BytesRead(caches[0]->layout(), tokens));
  const double rate = bytes * static_cast<double>(state.iterations()) / seconds.count();
  state.SetLabel(kFormats[state.range(0)]);
  state.counters["bytes"] = bytes;
  state.counters["GB/s"] = rate / 1e9;
  state.counters["of_read"] = rate / ReadBandwidth();
}

void AllShapes(benchmark::internal::Benchmark* attention) {
  for (size_t format = 0; format < std::size(kFormats); ++format) {
    for (const int64_t tokens : {1024, 4096, 16384}) {
      for (const int64_t group : {1, 3, 7}) {
        attention->Args({static_cast<int64_t>(format), tokens, group});
      }
    }
  }
}
BENCHMARK(BM_DecodeAttention)
    ->ArgNames({"format", "tokens", "group"})
    ->Apply(AllShapes)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvant

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  kvant::ApplyIsaFromEnvironment();
  benchmark::AddCustomContext("instruction set", std::string(kvant::IsaName(kvant::ActiveIsa())));
  benchmark::AddCustomContext("plain read, GB/s", std::to_string(kvant::ReadBandwidth() / 1e9));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
