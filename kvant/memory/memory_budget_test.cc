#include "kvant/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <string>

#include "kvant/core/error.h"

namespace kvant {
namespace {

TEST(MemoryBudget, ThePoolIsWhatIsLeft) {
  const MemoryBudget budget = MakeMemoryBudget(1000, {300, 200, 50, 50}, 100);
  EXPECT_EQ(budget.pool, 400U);
  EXPECT_EQ(budget.weights + budget.workspace + budget.logits + budget.tokenizer + budget.pool,
            budget.total);
}

TEST(MemoryBudget, TooSmallIsRefusedWithTheArithmetic) {
  try {
    MakeMemoryBudget(100ULL << 20, {90ULL << 20, 8ULL << 20, 0, 0}, 4ULL << 20);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOverBudget);
    EXPECT_NE(error.message().find("weights 90.0 MiB"), std::string::npos) << error.message();
    EXPECT_NE(error.hint().find("--memory 102MiB"), std::string::npos) << error.hint();
  }
  EXPECT_THROW(MakeMemoryBudget(10, {UINT64_MAX, 1, 0, 0}, 0), Error);
}

}  // namespace
}  // namespace kvant
