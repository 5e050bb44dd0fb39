#include "kvant/cache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvant/cache/cache_fixture.h"
#include "kvant/core/error.h"
#include "kvant/core/random.h"

namespace kvant {
namespace {

using ::testing::Pair;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Prepares, writes and commits in steps of at most `chunk`.
void Grow(TestSequence& sequence, uint64_t tokens, uint64_t chunk) {
  while (sequence.tokens.size() < tokens) {
    sequence.AddToken(static_cast<int32_t>(sequence.tokens.size() % 1000));
  }
  while (sequence.table.tokens() < tokens) {
    const uint64_t count = std::min(chunk, tokens - sequence.table.tokens());
    ASSERT_TRUE(sequence.table.Prepare(count));
    PatternCache::RunStep(sequence, count);
    sequence.table.Commit(count);
  }
}

TEST(BlockTable, KeepsWhatTheNextTokenSeesInTheFormItMustBeSeenIn) {
  BlockPool pool(64 * kMiB);
  Random random(1);
  for (const auto& layout : VariedLayouts()) {
    for (const uint64_t chunk : {1U, 63U, 64U, 65U, 200U, 640U}) {
      TestSequence sequence(pool, layout);
      for (uint64_t tokens = chunk; tokens < 1000; tokens += chunk * (1 + random.Below(3))) {
        Grow(sequence, tokens, chunk);
        PatternCache::ExpectIntact(sequence);
      }
    }
  }
  EXPECT_EQ(pool.usage().committed_bytes, 0U);
}

TEST(BlockTable, HasBothFormsOfABlockOnlyDuringTheStepThatSealsIt) {
  BlockPool pool(kMiB);
  TestSequence sequence(pool, MakeLayout({SealingGroup(0, 6400, 3200)}));
  Grow(sequence, 60, 60);
  ASSERT_TRUE(sequence.table.Prepare(10));
  EXPECT_THAT(sequence.table.blocks_to_seal(0), Pair(0, 1));
  EXPECT_NE(sequence.table.blocks(0)[0].open, nullptr);
  EXPECT_NE(sequence.table.blocks(0)[0].sealed, nullptr);
  EXPECT_EQ(sequence.table.blocks(0)[1].sealed, nullptr);
  sequence.table.Commit(10);
  EXPECT_EQ(sequence.table.blocks(0)[0].open, nullptr);
  EXPECT_EQ(sequence.table.held_bytes(), 6400U + 3200U);
}

TEST(BlockTable, SealsEveryBlockOnceExceptSinksAndRecentOnes) {
  BlockPool pool(4 * kMiB);
  Random random(2);
  BlockTable table(pool, MakeLayout({SealingGroup(0, 6400, 3200, 2, 1)}));
  uint64_t expected = 2;
  for (int step = 0; step < 40; ++step) {
    const uint64_t count = 1 + random.Below(150);
    ASSERT_TRUE(table.Prepare(count));
    const auto [begin, end] = table.blocks_to_seal(0);
    if (begin < end) {
      EXPECT_EQ(begin, expected);
      expected = end;
    }
    table.Commit(count);
    EXPECT_EQ(expected, std::max<uint64_t>(2, std::max<uint64_t>(table.tokens() / 64, 1) - 1));
  }
}

TEST(BlockTable, NeverSealsWhereSealingIsNotACopy) {
  BlockPool pool(kMiB);
  BlockTable table(pool, MakeLayout({AppendGroup(0, 3200), SixteenBitGroup(0, 6400)}));
  ASSERT_TRUE(table.Prepare(200));
  for (const size_t group : {0U, 1U}) {
    const auto [begin, end] = table.blocks_to_seal(group);
    EXPECT_EQ(begin, end);
  }
  EXPECT_EQ(table.blocks(0)[0].open, nullptr);
  EXPECT_EQ(table.blocks(1)[0].open, table.blocks(1)[0].sealed);
  EXPECT_EQ(table.held_bytes(), 4 * (3200U + 6400U));
}

TEST(BlockTable, ASlidingWindowHoldsNoMoreBlocksThanItsTokensTouch) {
  BlockPool pool(4 * kMiB);
  TestSequence sequence(pool, MakeLayout({SealingGroup(128, 6400, 3200)}));
  Grow(sequence, 64, 64);
  for (uint64_t tokens = 65; tokens < 900; ++tokens) {
    Grow(sequence, tokens, 1);
    EXPECT_LE(sequence.table.HeldBlocks().size(), 3U);
  }
  PatternCache::ExpectIntact(sequence);
}

TEST(BlockTable, FirstVisibleBlockIsWhereTheWindowBegins) {
  for (const uint32_t window : {1U, 2U, 63U, 64U, 65U, 512U}) {
    const GroupLayout group = SealingGroup(window, 64, 64);
    for (uint64_t position = 0; position < 1200; ++position) {
      uint64_t first_seen = 0;  // positions above position - window
      while (first_seen + window <= position) ++first_seen;
      ASSERT_EQ(FirstVisibleBlock(group, position), first_seen / 64);
    }
  }
  EXPECT_EQ(FirstVisibleBlock(SealingGroup(0, 64, 64), 5000), 0U);
}

TEST(BlockTable, PrepareThatDoesNotFitChangesNothing) {
  BlockPool pool(20 * BlockPool::page_bytes());
  TestSequence sequence(pool, MakeLayout({SealingGroup(0, 4096, 2048), AppendGroup(0, 4096)}));
  Grow(sequence, 100, 100);
  const auto held = sequence.table.HeldBlocks();
  const PoolUsage before = pool.usage();
  EXPECT_FALSE(sequence.table.Prepare(1000));
  EXPECT_EQ(sequence.table.HeldBlocks(), held);
  EXPECT_EQ(pool.usage().committed_bytes, before.committed_bytes);
  EXPECT_EQ(sequence.table.tokens(), 100U);
  PatternCache::ExpectIntact(sequence);
  Grow(sequence, 200, 50);
  PatternCache::ExpectIntact(sequence);
}

TEST(BlockTable, AbandonTakesAPrepareBack) {
  BlockPool pool(4 * kMiB);
  for (const auto& layout : VariedLayouts()) {
    TestSequence sequence(pool, layout);
    Grow(sequence, 150, 150);
    const auto held = sequence.table.HeldBlocks();
    ASSERT_TRUE(sequence.table.Prepare(300));
    sequence.table.Abandon();
    EXPECT_EQ(sequence.table.HeldBlocks(), held);
    PatternCache::ExpectIntact(sequence);
    Grow(sequence, 500, 77);
    PatternCache::ExpectIntact(sequence);
  }
}

TEST(BlockTable, AForkSharesItsPastAndCopiesTheBlockItWritesTo) {
  BlockPool pool(4 * kMiB);
  for (const auto& layout : VariedLayouts()) {
    TestSequence parent(pool, layout);
    Grow(parent, 150, 64);
    const uint64_t used = pool.usage().used_bytes;
    TestSequence fork(parent.table.Fork(), parent);
    EXPECT_EQ(pool.usage().used_bytes, used);
    fork.AddToken(7777);
    Grow(fork, 151, 1);
    Grow(parent, 300, 50);
    Grow(fork, 280, 50);
    PatternCache::ExpectIntact(parent);
    PatternCache::ExpectIntact(fork);
    parent.table.Clear();
    PatternCache::ExpectIntact(fork);
    Grow(fork, 400, 50);
    PatternCache::ExpectIntact(fork);
  }
  EXPECT_EQ(pool.usage().used_bytes, 0U);
}

TEST(BlockTable, TheLastOwnerOfAPartlyFilledBlockWritesWithoutACopy) {
  BlockPool pool(kMiB);
  TestSequence parent(pool, MakeLayout({SealingGroup(0, 6400, 3200)}));
  Grow(parent, 10, 10);
  const uint8_t* original = parent.table.blocks(0)[0].open;
  TestSequence fork(parent.table.Fork(), parent);
  Grow(fork, 11, 1);
  EXPECT_NE(fork.table.blocks(0)[0].open, original);
  Grow(parent, 11, 1);
  EXPECT_EQ(parent.table.blocks(0)[0].open, original);
}

TEST(BlockTable, ForksPreparedInOneBatchNeverWriteToOneBlock) {
  BlockPool pool(kMiB);
  TestSequence first(pool, MakeLayout({SealingGroup(0, 6400, 3200)}));
  Grow(first, 63, 63);
  TestSequence second(first.table.Fork(), first);
  TestSequence third(first.table.Fork(), first);
  std::vector<TestSequence*> all = {&first, &second, &third};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i]->AddToken(static_cast<int32_t>(i));
    ASSERT_TRUE(all[i]->table.Prepare(1));
  }
  for (TestSequence* sequence : all) PatternCache::RunStep(*sequence, 1);
  for (TestSequence* sequence : all) sequence->table.Commit(1);
  for (TestSequence* sequence : all) PatternCache::ExpectIntact(*sequence);
}

TEST(BlockTable, AnotherSequenceAdoptsAPrefix) {
  BlockPool pool(4 * kMiB);
  for (const auto& layout : VariedLayouts()) {
    const bool recent = layout->groups[0].recent_blocks > 0;
    if (recent) continue;
    TestSequence source(pool, layout);
    Grow(source, 256, 64);
    std::vector<std::vector<OptionalBlock>> blocks(layout->groups.size());
    for (size_t g = 0; g < blocks.size(); ++g) {
      for (uint64_t j = 0; j < 4; ++j) blocks[g].push_back(source.table.FinalBlock(g, j));
    }
    const uint64_t used = pool.usage().used_bytes;
    TestSequence other(pool, layout);
    other.table.AdoptPrefix(256, blocks);
    EXPECT_EQ(pool.usage().used_bytes, used);
    other.tokens = source.tokens;
    other.history = source.history;
    PatternCache::ExpectIntact(other);
    source.table.Clear();
    other.AddToken(5);
    Grow(other, 400, 33);
    PatternCache::ExpectIntact(other);
  }
}

TEST(BlockTable, MovesWithoutLosingBlocks) {
  BlockPool pool(kMiB);
  TestSequence sequence(pool, MakeLayout({SealingGroup(0, 6400, 3200)}));
  Grow(sequence, 100, 100);
  const uint64_t used = pool.usage().used_bytes;
  BlockTable moved(std::move(sequence.table));
  EXPECT_EQ(moved.tokens(), 100U);
  EXPECT_EQ(pool.usage().used_bytes, used);
  moved = BlockTable(pool, MakeLayout({AppendGroup(0, 64)}));
  EXPECT_EQ(pool.usage().used_bytes, 0U);
}

TEST(BlockTable, ClearReleasesAlsoWhatWasPrepared) {
  BlockPool pool(kMiB);
  BlockTable table(pool, MakeLayout({SealingGroup(0, 6400, 3200)}));
  ASSERT_TRUE(table.Prepare(200));
  table.Clear();
  EXPECT_EQ(pool.usage().used_bytes, 0U);
  EXPECT_EQ(table.tokens(), 0U);
  EXPECT_TRUE(table.Prepare(1));
}

// The most that tables hold over all schedules: every end of a step, reached by the longest one.
uint64_t PeakBySimulation(const std::shared_ptr<const CacheLayout>& layout, uint64_t tokens,
                          uint64_t chunk) {
  BlockPool pool(64 * kMiB);
  uint64_t peak = 0;
  for (uint64_t first = 1; first <= std::min(chunk, tokens); ++first) {
    BlockTable table(pool, layout);
    for (uint64_t count = first; count > 0; count = std::min(chunk, tokens - table.tokens())) {
      EXPECT_TRUE(table.Prepare(count));
      peak = std::max(peak, table.held_bytes());
      table.Commit(count);
    }
  }
  return peak;
}

TEST(PeakBytes, IsExactlyWhatTheHungriestScheduleHolds) {
  auto layouts = VariedLayouts();
  layouts.push_back(MakeLayout({SealingGroup(100, 6400, 64, 3)}));
  layouts.push_back(MakeLayout({SealingGroup(300, 6400, 64, 2, 1), SealingGroup(0, 640, 320)}));
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (const uint64_t chunk : {1U, 50U, 64U, 100U, 192U}) {
      for (const uint64_t tokens : {1U, 63U, 64U, 65U, 200U, 500U, 1000U}) {
        ASSERT_EQ(PeakBytes(*layouts[i], tokens, chunk, ByteCount::kBlocks),
                  PeakBySimulation(layouts[i], tokens, chunk))
            << "layout " << i << " chunk " << chunk << " tokens " << tokens;
      }
    }
  }
}

TEST(PeakBytes, OneTokenAtATimeAndTheHeadroomHoldEveryStep) {
  auto layouts = VariedLayouts();
  layouts.push_back(MakeLayout({SealingGroup(100, 6400, 64, 3)}));
  layouts.push_back(MakeLayout({SealingGroup(300, 6400, 64, 2, 1), SealingGroup(0, 640, 320)}));
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (const uint64_t chunk : {1U, 50U, 64U, 100U, 192U, 512U}) {
      const uint64_t headroom = StepHeadroomBytes(*layouts[i], chunk);
      for (uint64_t tokens = 1; tokens < 1200; tokens += 7) {
        ASSERT_LE(PeakBytes(*layouts[i], tokens, chunk),
                  PeakBytes(*layouts[i], tokens, 1) + headroom)
            << "layout " << i << " chunk " << chunk << " tokens " << tokens;
      }
    }
  }
}

TEST(PeakBytes, GrowsWithTheSealedBytesOfFullAttentionOnly) {
  const auto layout =
      MakeLayout({SealingGroup(0, 6400, 3200), SealingGroup(512, 640'000, 320'000)});
  const uint64_t at_8k = PeakBytes(*layout, 8192, 512, ByteCount::kBlocks);
  EXPECT_EQ(PeakBytes(*layout, 16384, 512, ByteCount::kBlocks) - at_8k, 8192 / 64 * 3200U);
}

TEST(PeakBytes, RefusesTokensWhoseBytesDoNotFitANumber) {
  const auto layout = MakeLayout({SealingGroup(0, 6400, 3200)});
  EXPECT_EQ(PeakBytes(*layout, 0, 512), 0U);
  EXPECT_THROW(PeakBytes(*layout, uint64_t{1} << 60, 512), Error);
  EXPECT_THROW(PeakBytes(*layout, ~uint64_t{0}, ~uint64_t{0}), Error);
}

TEST(PeakBytes, SequencesAdmittedByItNeverFailToGrow) {
  Random random(3);
  const auto layouts = VariedLayouts();
  uint64_t headroom = 0;
  for (const auto& layout : layouts) headroom = std::max(headroom, StepHeadroomBytes(*layout, 128));
  const uint64_t budget = kMiB + headroom;
  BlockPool pool(budget);
  ASSERT_TRUE(pool.Reserve(headroom));
  struct Admitted {
    BlockTable table;
    uint64_t tokens;
    uint64_t bytes;
  };
  std::vector<Admitted> running;
  uint64_t finished = 0;
  for (int step = 0; step < 6000; ++step) {
    const auto& layout = layouts[random.Below(layouts.size())];
    const uint64_t tokens = 1 + random.Below(900);
    const uint64_t bytes = PeakBytes(*layout, tokens, 1);
    if (pool.Reserve(bytes)) running.push_back({BlockTable(pool, layout), tokens, bytes});
    if (running.empty()) continue;
    const size_t index = random.Below(running.size());
    Admitted& chosen = running[index];
    const uint64_t count =
        1 + random.Below(std::min<uint64_t>(128, chosen.tokens - chosen.table.tokens()));
    ASSERT_TRUE(chosen.table.Prepare(count));
    chosen.table.Commit(count);
    if (chosen.table.tokens() < chosen.tokens && random.Below(50) > 0) continue;
    pool.Unreserve(chosen.bytes);
    std::swap(running[index], running.back());
    running.pop_back();
    ++finished;
  }
  EXPECT_GT(finished, 500U);
}

// Tokens of one sequence that a pool takes before it is full.
uint64_t TokensThatFit(uint64_t budget, const std::shared_ptr<const CacheLayout>& layout) {
  BlockPool pool(budget);
  BlockTable table(pool, layout);
  while (table.Prepare(kBlockTokens)) table.Commit(kBlockTokens);
  return table.tokens();
}

// SmolLM2-135M: 30 layers, 3 KV heads, head_dim 64; int8 takes 8.5 bits a value, int4 4.5.
TEST(BlockTable, APoolTakesTheTokensThatTheFormatsBytesPromise) {
  const uint64_t values = 30 * 3 * 64 * 64 * 2;
  const uint64_t budget = 128 * kMiB;
  const auto fit = [&](double bits, bool sixteen_bit) {
    const auto bytes = static_cast<uint64_t>(static_cast<double>(values) * bits / 8);
    const auto layout = sixteen_bit ? MakeLayout({SixteenBitGroup(0, bytes)})
                                    : MakeLayout({SealingGroup(0, values * 2, bytes)});
    const auto tokens = static_cast<double>(TokensThatFit(budget, layout));
    EXPECT_GE(tokens, 0.98 * static_cast<double>(budget) / static_cast<double>(bytes) * 64);
    return tokens;
  };
  const double bf16 = fit(16, true);
  EXPECT_GE(fit(8.5, false) / bf16, 0.98 * 16 / 8.5);
  EXPECT_GE(fit(4.5, false) / bf16, 0.98 * 16 / 4.5);
}

}  // namespace
}  // namespace kvant
