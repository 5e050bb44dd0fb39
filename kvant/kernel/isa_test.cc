#include "kvant/kernel/isa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/kernel/attention.h"
#include "kvant/kernel/gemv.h"
#include "kvant/kernel/kv_cache_fixture.h"

namespace kvant {
namespace {

class IsaTest : public testing::Test {
 protected:
  void TearDown() override { ForceIsa(AvailableIsas().back()); }
};

std::vector<float> RandomVector(Random* random, size_t size) {
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(random->Normal());
  return values;
}

std::vector<float> RunAttention(const char* format) {
  Random random(1);
  const AttentionShape shape = {6, 2, 64, 0.125F, 0};
  KvCacheFixture cache(ParseKvFormat(format), {2, 64, 300}, 1);
  cache.Write(RandomVector(&random, 300 * 128), RandomVector(&random, 300 * 128), 300);
  const std::vector<float> q = RandomVector(&random, 300 * 384);
  std::vector<float> out(q.size());
  ThreadPool pool(1);
  AttentionWorkspace workspace(64, 1, 0);
  const AttentionQueries queries = {cache.cache(), 0, 300, q.data(), out.data()};
  Attend(shape, std::span(&queries, 1), pool, workspace);
  return out;
}

TEST_F(IsaTest, EveryPathThisMachineHasGivesTheSameAttention) {
  for (const Isa isa : AllIsas()) {
    const std::vector<Isa> available = AvailableIsas();
    if (std::find(available.begin(), available.end(), isa) == available.end()) {
      std::printf("NOT TESTED on this machine: %s\n", std::string(IsaName(isa)).c_str());
    }
  }
  for (const char* format : {"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "int8", "int4", "int2", "q8_0",
                             "q4_0", "int4_per_token_head", "int8+bias_removed"}) {
    ForceIsa(AvailableIsas().front());
    const std::vector<float> portable = RunAttention(format);
    for (const Isa isa : AvailableIsas()) {
      ForceIsa(isa);
      ASSERT_EQ(ActiveIsa(), isa);
      const std::vector<float> got = RunAttention(format);
      double error = 0;
      double energy = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(static_cast<double>(got[i]) - portable[i], 2);
        energy += std::pow(static_cast<double>(portable[i]), 2);
      }
      // A code on a rounding boundary may fall either way; that is far below the format's step.
      EXPECT_LT(std::sqrt(error / energy), 2e-4) << format << " on " << IsaName(isa);
    }
  }
}

TEST_F(IsaTest, EveryPathGivesTheSameProducts) {
  Random random(2);
  const std::vector<float> weights = RandomVector(&random, 100 * 512);
  const PackedMatrix w = {WeightType::kF32, 100, 512,
                          reinterpret_cast<const uint8_t*>(weights.data())};
  const std::vector<float> x = RandomVector(&random, 512);
  ThreadPool pool(1);
  GemvWorkspace workspace(512);
  ForceIsa(AvailableIsas().front());
  std::vector<float> portable(100);
  MultiplyRows(w, x, 1, portable.data(), pool, workspace);
  for (const Isa isa : AvailableIsas()) {
    ForceIsa(isa);
    std::vector<float> got(100);
    MultiplyRows(w, x, 1, got.data(), pool, workspace);
    for (size_t i = 0; i < 100; ++i) EXPECT_NEAR(got[i], portable[i], 1e-3);
  }
}

TEST_F(IsaTest, AForcedPathStaysForced) {
  for (const Isa isa : AvailableIsas()) {
    ForceIsa(isa);
    for (int i = 0; i < 3; ++i) {
      AvailableIsas();
      EXPECT_EQ(ActiveIsa(), isa);
    }
  }
}

TEST_F(IsaTest, AnUnknownPathIsRefused) {
  ::setenv("KVANT_ISA", "avx9000", 1);
  EXPECT_THROW(ApplyIsaFromEnvironment(), Error);
  const Isa slowest = AvailableIsas().front();
  ::setenv("KVANT_ISA", std::string(IsaName(slowest)).c_str(), 1);
  ApplyIsaFromEnvironment();
  EXPECT_EQ(ActiveIsa(), slowest);
  EXPECT_TRUE(IsaIsForced());
  ::unsetenv("KVANT_ISA");
}

}  // namespace
}  // namespace kvant
