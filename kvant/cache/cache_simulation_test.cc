// The cache under a seeded random load: many sequences of several plans in one small pool, with
// forks, cancellations, prefix hits and eviction; everything is checked after every step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "kvant/cache/block_pool.h"
#include "kvant/cache/block_table.h"
#include "kvant/cache/cache_fixture.h"
#include "kvant/cache/prefix_index.h"
#include "kvant/core/random.h"

namespace kvant {
namespace {

struct SimulatedSequence {
  TestSequence sequence;
  PrefixRoot root;
  PrefixCursor cursor;
  uint64_t prefill_tokens = 0;
  uint64_t max_tokens = 0;
  uint64_t step_tokens = 0;  // of the batch that is being run
};

class CacheSimulation {
 public:
  CacheSimulation(uint64_t seed, uint64_t budget_pages)
      : random_(seed), pool_(budget_pages * BlockPool::page_bytes()), index_(pool_) {
    const auto layouts = VariedLayouts();
    for (const char* salt : {"red", "blue"}) {
      for (const auto& layout : layouts) {
        roots_.push_back(MakePrefixRoot({salt, Digest{}, ""}, layout));
      }
    }
  }

  void Step() {
    const uint64_t dice = random_.Below(100);
    if (sequences_.size() < 4 || (dice < 10 && sequences_.size() < 24)) {
      Start();
    } else if (dice < 14) {
      Fork();
    } else if (dice < 20) {
      Cancel(random_.Below(sequences_.size()));
    } else if (dice < 22) {
      CheckEvict(random_.Below(20'000));
    } else {
      RunBatch();
    }
    CheckConservation();
  }

  void CheckAll() const {
    for (const auto& s : sequences_) PatternCache::ExpectIntact(s->sequence);
  }

  void Finish() {
    CheckAll();
    sequences_.clear();
    CheckConservation();
    index_.Evict(~uint64_t{0});
    const PoolUsage usage = pool_.usage();
    EXPECT_EQ(usage.used_bytes, 0U);
    EXPECT_EQ(usage.committed_bytes, 0U);
    EXPECT_EQ(index_.stats().held_blocks, 0U);
  }

  uint64_t completed() const { return completed_; }
  uint64_t refused() const { return refused_; }
  const PrefixIndex& index() const { return index_; }

 private:
  // Few different tokens at few places, so that prompts share pasts of many lengths.
  int32_t DrawToken(uint64_t position) {
    const bool branches = position % 97 == 40;
    return static_cast<int32_t>(branches ? random_.Below(3) : position % 11);
  }

  void Start() {
    // The first roots are drawn most, so that they meet their own past in the index.
    const PrefixRoot& root = roots_[random_.Below(1 + random_.Below(roots_.size()))];
    auto started = std::make_unique<SimulatedSequence>(
        SimulatedSequence{TestSequence(pool_, root.layout), root, {}, 0, 0, 0});
    started->prefill_tokens = 1 + random_.Below(500);
    started->max_tokens = started->prefill_tokens + random_.Below(150);
    TestSequence& sequence = started->sequence;
    for (uint64_t p = 0; p < started->prefill_tokens; ++p) sequence.AddToken(DrawToken(p));
    const PrefixHit hit = index_.Find(root, sequence.tokens, random_.Below(2) > 0);
    if (hit.tokens > 0) {
      ASSERT_LT(hit.tokens, sequence.tokens.size());
      sequence.table.AdoptPrefix(hit.tokens, hit.blocks);
      started->cursor = hit.cursor;
    }
    PatternCache::ExpectIntact(sequence);
    sequences_.push_back(std::move(started));
  }

  void Fork() {
    const SimulatedSequence& parent = *sequences_[random_.Below(sequences_.size())];
    TestSequence fork(parent.sequence.table.Fork(), parent.sequence);
    sequences_.push_back(std::make_unique<SimulatedSequence>(SimulatedSequence{
        std::move(fork), parent.root, parent.cursor, parent.prefill_tokens, parent.max_tokens, 0}));
  }

  void Cancel(uint64_t which) {
    std::swap(sequences_[which], sequences_.back());
    sequences_.pop_back();
  }

  void CheckEvict(uint64_t wanted) {
    const uint64_t before = pool_.usage().used_bytes;
    const uint64_t freed = index_.Evict(wanted);
    ASSERT_EQ(pool_.usage().used_bytes, before - freed);
    if (freed >= wanted) return;
    for (const BlockId block : index_.HeldBlocks()) ASSERT_GT(pool_.references(block), 1U);
  }

  bool Prepare(SimulatedSequence& s) {
    BlockTable& table = s.sequence.table;
    const PoolUsage before = pool_.usage();
    const uint64_t bound = table.BytesFor(s.step_tokens);
    const auto held = table.HeldBlocks();
    if (table.Prepare(s.step_tokens)) {
      EXPECT_LE(pool_.usage().committed_bytes, before.committed_bytes + bound);
      return true;
    }
    EXPECT_GT(bound, before.free_bytes);
    EXPECT_EQ(table.HeldBlocks(), held);
    EXPECT_EQ(pool_.usage().committed_bytes, before.committed_bytes);
    EXPECT_EQ(pool_.usage().used_bytes, before.used_bytes);
    ++refused_;
    return false;
  }

  // Several sequences at once: all are prepared, then written, then committed.
  void RunBatch() {
    std::vector<SimulatedSequence*> batch;
    std::vector<const SimulatedSequence*> stuck;
    for (const auto& s : sequences_) {
      if (random_.Below(3) > 0) continue;
      ChooseStep(*s);
      if (!Prepare(*s)) {
        CheckEvict(s->sequence.table.BytesFor(s->step_tokens));
        if (!Prepare(*s)) {
          stuck.push_back(s.get());
          continue;
        }
      }
      if (random_.Below(20) == 0) {
        s->sequence.table.Abandon();
        PatternCache::ExpectIntact(s->sequence);
        continue;
      }
      batch.push_back(s.get());
    }
    CheckSoleWriters(batch);
    for (SimulatedSequence* s : batch) PatternCache::RunStep(s->sequence, s->step_tokens);
    for (SimulatedSequence* s : batch) {
      s->sequence.table.Commit(s->step_tokens);
      PatternCache::ExpectIntact(s->sequence);
      index_.Insert(s->root, s->sequence.tokens, s->prefill_tokens, s->sequence.table, &s->cursor);
    }
    if (!stuck.empty() && random_.Below(2) > 0) {
      const SimulatedSequence* victim = stuck[random_.Below(stuck.size())];
      std::erase_if(sequences_, [victim](const auto& s) { return s.get() == victim; });
    }
    EndFinished();
  }

  void ChooseStep(SimulatedSequence& s) {
    const uint64_t written = s.sequence.table.tokens();
    if (written < s.sequence.tokens.size()) {
      s.step_tokens = 1 + random_.Below(std::min<uint64_t>(random_.Below(4) > 0 ? 64 : 300,
                                                           s.sequence.tokens.size() - written));
    } else {
      s.sequence.AddToken(DrawToken(written));
      s.step_tokens = 1;
    }
  }

  void EndFinished() {
    for (size_t i = sequences_.size(); i-- > 0;) {
      if (sequences_[i]->sequence.table.tokens() < sequences_[i]->max_tokens) continue;
      Cancel(i);
      ++completed_;
    }
  }

  // What the batch is about to write is referred to once, by the table that writes it.
  void CheckSoleWriters(const std::vector<SimulatedSequence*>& batch) {
    std::map<const uint8_t*, uint32_t> references;
    for (const auto& s : sequences_) {
      for (const BlockId block : s->sequence.table.HeldBlocks()) ++references[pool_.Data(block)];
    }
    for (const BlockId block : index_.HeldBlocks()) ++references[pool_.Data(block)];
    for (const SimulatedSequence* s : batch) {
      const BlockTable& table = s->sequence.table;
      for (size_t g = 0; g < table.layout().groups.size(); ++g) {
        const auto blocks = table.blocks(g);
        const bool append = table.layout().groups[g].append;
        for (uint64_t j = table.tokens() / kBlockTokens; j < blocks.size(); ++j) {
          ASSERT_EQ(references[append ? blocks[j].sealed : blocks[j].open], 1U);
        }
        const auto [begin, end] = table.blocks_to_seal(g);
        for (uint64_t j = begin; j < end; ++j) ASSERT_EQ(references[blocks[j].sealed], 1U);
      }
    }
  }

  void CheckConservation() const {
    std::map<BlockId, uint32_t> references;
    for (const auto& s : sequences_) {
      for (const BlockId block : s->sequence.table.HeldBlocks()) ++references[block];
    }
    for (const BlockId block : index_.HeldBlocks()) ++references[block];
    uint64_t used = 0;
    for (const auto& [block, count] : references) {
      ASSERT_EQ(pool_.references(block), count);
      used += pool_.block_bytes(block.size_class);
    }
    const PoolUsage usage = pool_.usage();
    uint64_t live = 0;
    for (const SizeClassUsage& size_class : usage.size_classes) live += size_class.live_blocks;
    ASSERT_EQ(live, references.size());
    ASSERT_EQ(usage.used_bytes, used);
    ASSERT_LE(usage.committed_bytes, usage.budget_bytes);
    ASSERT_EQ(usage.committed_bytes, usage.used_bytes + usage.fragmented_bytes);
  }

  Random random_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<PrefixRoot> roots_;
  std::vector<std::unique_ptr<SimulatedSequence>> sequences_;
  uint64_t completed_ = 0;
  uint64_t refused_ = 0;
};

class CacheSimulationTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CacheSimulationTest, HoldsEveryInvariantAfterEveryStep) {
  const uint64_t seed = GetParam();
  // From a pool that one sequence can fill to one that is rarely full.
  const uint64_t budget_pages[] = {30, 80, 200, 1000};
  CacheSimulation simulation(seed, budget_pages[seed % std::size(budget_pages)]);
  for (int step = 0; step < 2500; ++step) {
    simulation.Step();
    if (step % 50 == 0) simulation.CheckAll();
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "seed " << seed << " step " << step;
  }
  RecordProperty("completed", static_cast<int>(simulation.completed()));
  RecordProperty("refused", static_cast<int>(simulation.refused()));
  RecordProperty("hits", static_cast<int>(simulation.index().stats().hits));
  simulation.Finish();
  EXPECT_GT(simulation.completed(), 0U);
  EXPECT_GT(simulation.index().stats().hits, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheSimulationTest, ::testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace kvant
