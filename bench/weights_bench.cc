// Dense layers on packed weights.
//
// Decoding (BM_Gemv): bytes of weights read per second, and their share of what plain reading of
// memory reaches in the same run. Prefill (BM_Matmul): GFLOP/s, and their share of oneDNN's
// dnnl_sgemm on float32 weights of the same shape, which decodes nothing.
#include <benchmark/benchmark.h>
#include <dnnl.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "bench/read_bandwidth.h"
#include "kvant/kernel/gemv.h"
#include "kvant/kernel/isa.h"
#include "kvant/kernel/matmul.h"
#include "kvant/kernel/packed_weights_fixture.h"

namespace kvant {
namespace {

// 42 MB (4-bit) to 302 MB (F32) of weights, read once in each iteration: more than most last-level
// caches hold.
constexpr uint64_t kGemvRows = 49152;
constexpr uint64_t kColumns = 1536;

struct DenseShape {
  uint64_t rows;
  uint64_t columns;
};

// SmolLM2-135M's K, up and down projections, Qwen2.5-0.5B's up projection.
constexpr DenseShape kMatmulShapes[] = {{192, 576}, {1536, 576}, {576, 1536}, {4864, 896}};
constexpr size_t kTokens = 512;

std::string LabelOf(WeightType type) {
  return std::string(WeightTypeName(type)) + " " + std::string(IsaName(ActiveIsa()));
}

// Arguments: index in kAllWeightTypes, rows of activations.
void BM_Gemv(benchmark::State& state) {
  const WeightType type = kAllWeightTypes[state.range(0)];
  const auto batch = static_cast<size_t>(state.range(1));
  Random random(1);
  const RandomMatrix weights(type, kGemvRows, kColumns, &random);
  const std::vector<float> x = RandomVector(batch * kColumns, 1, &random);
  std::vector<float> out(batch * kGemvRows);
  ThreadPool pool(NumThreads());
  GemvWorkspace workspace(kColumns);
  for (auto _ : state) {
    MultiplyRows(weights.matrix, x, batch, out.data(), pool, workspace);
    benchmark::ClobberMemory();
  }
  const auto bytes = static_cast<double>(weights.bytes.size());
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes / 1e9, Counter::kIsIterationInvariantRate);
  state.counters["of_read"] = Counter(bytes / ReadBandwidth(), Counter::kIsIterationInvariantRate);
  state.SetLabel(LabelOf(type));
}
BENCHMARK(BM_Gemv)
    ->ArgNames({"type", "batch"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, std::size(kAllWeightTypes) - 1, 1), {1, 8}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Seconds that dnnl_sgemm takes for the same product, in as many threads as OpenMP gives it.
double SgemmSeconds(const DenseShape& shape, const std::vector<float>& x) {
  const std::vector<float> weights(shape.rows * shape.columns, 0.5F);
  std::vector<float> out(kTokens * shape.rows);
  const auto rows = static_cast<dnnl_dim_t>(shape.rows);
  const auto columns = static_cast<dnnl_dim_t>(shape.columns);
  double best = 1e9;
  for (int pass = 0; pass < 10; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    dnnl_sgemm('N', 'T', kTokens, rows, columns, 1.0F, x.data(), columns, weights.data(), columns,
               0.0F, out.data(), rows);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

// Arguments: index in kMatmulShapes, index in kAllWeightTypes.
void BM_Matmul(benchmark::State& state) {
  const DenseShape shape = kMatmulShapes[state.range(0)];
  const WeightType type = kAllWeightTypes[state.range(1)];
  Random random(2);
  const RandomMatrix weights(type, shape.rows, shape.columns, &random);
  const std::vector<float> x = RandomVector(kTokens * shape.columns, 1, &random);
  std::vector<float> out(kTokens * shape.rows);
  ThreadPool pool(NumThreads());
  MatmulWorkspace workspace(NumThreads());
  const double sgemm_seconds = SgemmSeconds(shape, x);
  for (auto _ : state) {
    Multiply(weights.matrix, x.data(), kTokens, out.data(), pool, workspace);
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * static_cast<double>(kTokens * shape.rows * shape.columns);
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(operations / 1e9, Counter::kIsIterationInvariantRate);
  state.counters["of_sgemm"] = Counter(sgemm_seconds, Counter::kIsIterationInvariantRate);
  state.SetLabel(LabelOf(type) + " " + std::to_string(shape.rows) + "x" +
                 std::to_string(shape.columns));
}
// Q8_0 and Q4_1 in all shapes: kAllWeightTypes[3] and [5].
BENCHMARK(BM_Matmul)
    ->ArgNames({"shape", "type"})
    ->ArgsProduct({benchmark::CreateDenseRange(0, std::size(kMatmulShapes) - 1, 1), {3, 5}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

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
