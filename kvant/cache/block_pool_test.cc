#include "kvant/cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "kvant/core/random.h"

namespace kvant {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool AllBytesAre(const uint8_t* data, uint64_t bytes, uint8_t value) {
  return std::all_of(data, data + bytes, [value](uint8_t byte) { return byte == value; });
}

// Pages of [data, data + bytes) that are in memory.
uint64_t ResidentPages(const uint8_t* data, uint64_t bytes) {
  const uint64_t page = BlockPool::page_bytes();
  const auto begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uint64_t pages = (reinterpret_cast<uintptr_t>(data) + bytes - begin + page - 1) / page;
  std::vector<unsigned char> resident(pages);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), pages * page, resident.data()), 0);
  return static_cast<uint64_t>(
      std::count_if(resident.begin(), resident.end(), [](unsigned char r) { return r & 1; }));
}

TEST(BlockPool, GivesAlignedZeroedBlocksAlsoWhenASlotIsUsedAgain) {
  BlockPool pool(kMiB);
  const SizeClass size = pool.AddSizeClass(1000);
  for (int round = 0; round < 3; ++round) {
    std::vector<BlockId> blocks;
    for (int i = 0; i < 50; ++i) {
      const auto block = pool.Allocate(size);
      ASSERT_TRUE(block.has_value());
      uint8_t* data = pool.Data(*block);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0U);
      EXPECT_TRUE(AllBytesAre(data, 1000, 0));
      std::memset(data, 0xAB, 1000);
      blocks.push_back(*block);
    }
    for (size_t i = round == 0 ? 1 : 0; i < blocks.size(); ++i) pool.Release(blocks[i]);
  }
}

TEST(BlockPool, GivesTheSameClassForTheSameSize) {
  BlockPool pool(kMiB);
  const SizeClass a = pool.AddSizeClass(1000);
  const SizeClass b = pool.AddSizeClass(1001);
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.AddSizeClass(1000), a);
  EXPECT_EQ(pool.block_bytes(b), 1001U);
}

TEST(BlockPool, FreesABlockWithItsLastReference) {
  BlockPool pool(kMiB);
  const SizeClass size = pool.AddSizeClass(5000);
  const BlockId block = *pool.Allocate(size);
  pool.AddReference(block);
  EXPECT_EQ(pool.references(block), 2U);
  pool.Release(block);
  EXPECT_EQ(pool.references(block), 1U);
  EXPECT_EQ(pool.usage().used_bytes, 5000U);
  pool.Release(block);
  EXPECT_EQ(pool.usage().used_bytes, 0U);
  EXPECT_EQ(pool.usage().committed_bytes, 0U);
}

TEST(BlockPool, ReportsBytesThatAddUp) {
  BlockPool pool(kMiB);
  const SizeClass small = pool.AddSizeClass(1000);  // 4 slots to a page, stride 1,024
  const SizeClass large = pool.AddSizeClass(6000);
  for (int i = 0; i < 5; ++i) pool.Allocate(small);
  pool.Allocate(large);
  const PoolUsage usage = pool.usage();
  const uint64_t page = BlockPool::page_bytes();
  EXPECT_EQ(usage.budget_bytes, kMiB);
  EXPECT_EQ(usage.used_bytes, 11000U);
  EXPECT_EQ(usage.committed_bytes, (5000 / page + 1 + 6000 / page + 1) * page);
  EXPECT_EQ(usage.free_bytes, kMiB - usage.committed_bytes);
  EXPECT_EQ(usage.fragmented_bytes, usage.committed_bytes - 11000);
  ASSERT_EQ(usage.size_classes.size(), 2U);
  EXPECT_EQ(usage.size_classes[0].block_bytes, 1000U);
  EXPECT_EQ(usage.size_classes[0].live_blocks, 5U);
  EXPECT_EQ(usage.size_classes[1].live_blocks, 1U);
}

TEST(BlockPool, RefusesWhatTheBudgetDoesNotAllow) {
  BlockPool pool(10 * BlockPool::page_bytes() + 17);
  const SizeClass too_large = pool.AddSizeClass(11 * BlockPool::page_bytes());
  EXPECT_FALSE(pool.Allocate(too_large).has_value());
  const SizeClass size = pool.AddSizeClass(3 * BlockPool::page_bytes());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.Allocate(size).has_value());
  EXPECT_FALSE(pool.Allocate(size).has_value());
  BlockPool nothing(0);
  EXPECT_FALSE(nothing.Allocate(nothing.AddSizeClass(64)).has_value());
}

TEST(BlockPool, GivesAllMemoryToAnotherBlockSizeOnceItIsFree) {
  BlockPool pool(kMiB);
  const SizeClass first = pool.AddSizeClass(4608);
  const SizeClass second = pool.AddSizeClass(kMiB);
  std::vector<BlockId> blocks;
  while (const auto block = pool.Allocate(first)) blocks.push_back(*block);
  EXPECT_EQ(blocks.size(), kMiB / 4608);
  EXPECT_FALSE(pool.Allocate(second).has_value());
  for (const BlockId block : blocks) pool.Release(block);
  EXPECT_TRUE(pool.Allocate(second).has_value());
}

TEST(BlockPool, PrefersLowSlotsSoThatTheTailEmpties) {
  BlockPool pool(kMiB);
  const SizeClass size = pool.AddSizeClass(4096);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(*pool.Allocate(size));
  for (const size_t i : {15U, 3U, 8U}) pool.Release(blocks[i]);
  EXPECT_EQ(pool.Allocate(size)->slot, 3U);
  EXPECT_EQ(pool.Allocate(size)->slot, 8U);
}

TEST(BlockPool, AtTheEdgeOfTheBudgetFindsASlotAmongCommittedPages) {
  BlockPool pool(4 * BlockPool::page_bytes());
  const SizeClass half = pool.AddSizeClass(BlockPool::page_bytes() / 2);
  const SizeClass page = pool.AddSizeClass(BlockPool::page_bytes());
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*pool.Allocate(half));
  pool.Release(blocks[0]);
  pool.Release(blocks[1]);
  pool.Release(blocks[3]);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.Allocate(page).has_value());
  // Slot 0 would need a page that the budget lacks; slot 3 lies beside slot 2.
  const auto block = pool.Allocate(half);
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->slot, 3U);
}

TEST(BlockPool, MemoryGivenBackLeavesTheProcess) {
  BlockPool pool(64 * kMiB);
  const uint64_t block_bytes = 700'032;
  const SizeClass size = pool.AddSizeClass(block_bytes);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 80; ++i) {
    blocks.push_back(*pool.Allocate(size));
    std::memset(pool.Data(blocks.back()), 1, block_bytes);
  }
  const uint8_t* base = pool.Data(blocks[0]);
  const uint64_t range = 80 * block_bytes;
  EXPECT_EQ(ResidentPages(base, range) * BlockPool::page_bytes(), pool.usage().committed_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 3 != 0) pool.Release(blocks[i]);
  }
  EXPECT_EQ(ResidentPages(base, range) * BlockPool::page_bytes(), pool.usage().committed_bytes);
  EXPECT_LT(pool.usage().committed_bytes, 20 * kMiB);
  for (size_t i = 0; i < blocks.size(); i += 3) pool.Release(blocks[i]);
  EXPECT_EQ(ResidentPages(base, range), 0U);
}

TEST(BlockPool, ReservationsAreBoundedByTheBudget) {
  BlockPool pool(1000);
  EXPECT_TRUE(pool.Reserve(600));
  EXPECT_FALSE(pool.Reserve(401));
  EXPECT_FALSE(pool.Reserve(~uint64_t{0}));
  EXPECT_TRUE(pool.Reserve(400));
  EXPECT_EQ(pool.usage().reserved_bytes, 1000U);
  pool.Unreserve(1000);
  EXPECT_EQ(pool.usage().reserved_bytes, 0U);
}

TEST(BlockPool, BlocksWithinTheirCommittedBoundAlwaysFit) {
  // Random churn in several sizes never makes a block fail while the sum of bounds is in budget.
  Random random(7);
  const uint64_t budget = 512 * BlockPool::page_bytes();
  BlockPool pool(budget);
  const uint64_t sizes[] = {64, 100, 1536, 4096, 4160, 9000, 50'000, 131'072};
  std::vector<SizeClass> classes;
  for (const uint64_t bytes : sizes) classes.push_back(pool.AddSizeClass(bytes));
  std::vector<BlockId> live;
  uint64_t bound = 0;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t bytes = sizes[random.Below(std::size(sizes))];
    if (bound + BlockPool::CommittedBound(bytes) <= budget && random.Below(3) > 0) {
      const auto block = pool.Allocate(pool.AddSizeClass(bytes));
      ASSERT_TRUE(block.has_value());
      live.push_back(*block);
      bound += BlockPool::CommittedBound(bytes);
    } else if (!live.empty()) {
      std::swap(live[random.Below(live.size())], live.back());
      bound -= BlockPool::CommittedBound(pool.block_bytes(live.back().size_class));
      pool.Release(live.back());
      live.pop_back();
    }
    ASSERT_LE(pool.usage().committed_bytes, budget);
    ASSERT_LE(pool.usage().committed_bytes, bound);
  }
}

TEST(BlockPoolDeathTest, StopsOnABlockThatIsNotLive) {
  BlockPool pool(kMiB);
  const BlockId block = *pool.Allocate(pool.AddSizeClass(64));
  pool.Release(block);
  EXPECT_DEATH(pool.Release(block), "references");
  EXPECT_DEATH(pool.Data(block), "references");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(BlockPoolDeathTest, AddressSanitizerSeesTheUseOfAFreedBlock) {
  BlockPool pool(kMiB);
  const BlockId block = *pool.Allocate(pool.AddSizeClass(1000));
  const volatile uint8_t* data = pool.Data(block);
  pool.Release(block);
  EXPECT_DEATH(static_cast<void>(data[0]), "use-after-poison");
}
#endif

// SmolLM2-135M in int8: 30 layers x 3 heads x 64 tokens x 64 channels, K and V, 8.5 bits.
TEST(BlockPool, HoldsTheSequencesThatTheFormulaPromises) {
  struct Case {
    uint64_t block_bytes;
    uint64_t budget;
  };
  const uint64_t values = 30 * 3 * 64 * 64 * 2;
  const Case cases[] = {{values * 85 / 80, 128 * kMiB},
                        {values * 45 / 80, 128 * kMiB},
                        {values * 2, 128 * kMiB},
                        {values * 85 / 80, 64 * kMiB}};
  for (const Case& c : cases) {
    BlockPool pool(c.budget);
    const SizeClass size = pool.AddSizeClass(c.block_bytes);
    uint64_t blocks = 0;
    while (pool.Allocate(size)) ++blocks;
    EXPECT_GE(static_cast<double>(blocks),
              0.98 * static_cast<double>(c.budget) / static_cast<double>(c.block_bytes));
    EXPECT_LE(pool.usage().committed_bytes, c.budget);
  }
}

}  // namespace
}  // namespace kvant
