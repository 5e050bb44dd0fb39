#include "kvant/cache/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kvant/cache/cache_fixture.h"
#include "kvant/core/sha256.h"

namespace kvant {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kAllPrefill = ~uint64_t{0};

std::vector<int32_t> Numbers(size_t count, int32_t first = 0) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// A sequence that runs as an engine would run it: adopts what it can, grows, enters its blocks.
struct Request {
  Request(BlockPool& pool, PrefixIndex& prefix_index, const PrefixRoot& prefix_root)
      : index(prefix_index), root(prefix_root), sequence(pool, prefix_root.layout) {}

  uint64_t Adopt(const std::vector<int32_t>& prompt, bool allow_decoded = true) {
    PrefixHit hit = index.Find(root, prompt, allow_decoded);
    if (hit.tokens > 0) sequence.table.AdoptPrefix(hit.tokens, hit.blocks);
    cursor = hit.cursor;
    for (const int32_t token : prompt) sequence.AddToken(token);
    PatternCache::ExpectIntact(sequence);
    return hit.tokens;
  }

  void Run(uint64_t chunk, uint64_t prefill_tokens = kAllPrefill) {
    while (sequence.table.tokens() < sequence.tokens.size()) {
      const uint64_t count =
          std::min<uint64_t>(chunk, sequence.tokens.size() - sequence.table.tokens());
      ASSERT_TRUE(sequence.table.Prepare(count));
      PatternCache::RunStep(sequence, count);
      sequence.table.Commit(count);
      index.Insert(root, sequence.tokens, prefill_tokens, sequence.table, &cursor);
    }
  }

  PrefixIndex& index;
  PrefixRoot root;
  TestSequence sequence;
  PrefixCursor cursor;
};

class PrefixIndexTest : public ::testing::Test {
 protected:
  PrefixRoot Root(std::shared_ptr<const CacheLayout> layout, const std::string& salt = "") {
    return MakePrefixRoot({salt, Sha256Of("model"), ""}, std::move(layout));
  }
  // Runs `prompt` to its end and drops the sequence; its blocks stay in the index.
  uint64_t Serve(const PrefixRoot& root, const std::vector<int32_t>& prompt, uint64_t chunk = 64,
                 uint64_t prefill_tokens = kAllPrefill, bool allow_decoded = true) {
    Request request(pool_, index_, root);
    const uint64_t hit = request.Adopt(prompt, allow_decoded);
    request.Run(chunk, prefill_tokens);
    PatternCache::ExpectIntact(request.sequence);
    return hit;
  }

  BlockPool pool_{16 * kMiB};
  PrefixIndex index_{pool_};
  std::shared_ptr<const CacheLayout> full_ = MakeLayout({SealingGroup(0, 6400, 3200)});
  std::shared_ptr<const CacheLayout> hybrid_ =
      MakeLayout({SealingGroup(0, 6400, 3200), SealingGroup(128, 12'800, 6400)});
};

TEST_F(PrefixIndexTest, FindsTheLongestPrefixOfWholeBlocks) {
  const PrefixRoot root = Root(full_);
  EXPECT_EQ(Serve(root, Numbers(300)), 0U);
  EXPECT_EQ(Serve(root, Numbers(300)), 256U);
  std::vector<int32_t> differs = Numbers(300);
  differs[130] = -1;
  EXPECT_EQ(Serve(root, differs), 128U);
  differs[0] = -1;
  EXPECT_EQ(Serve(root, differs), 0U);
  const PrefixStats stats = index_.stats();
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 2U);
  EXPECT_EQ(stats.hit_tokens, 384U);
  EXPECT_EQ(stats.held_bytes, pool_.usage().used_bytes);
}

TEST_F(PrefixIndexTest, LeavesAtLeastOneTokenToCompute) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(256));
  EXPECT_EQ(index_.Find(root, Numbers(256), true).tokens, 192U);
  EXPECT_EQ(index_.Find(root, Numbers(257), true).tokens, 256U);
  EXPECT_EQ(index_.Find(root, Numbers(64), true).tokens, 0U);
  EXPECT_EQ(index_.Find(root, {}, true).tokens, 0U);
}

TEST_F(PrefixIndexTest, NothingIsSharedAcrossTenantsModelsPlansOrAdapters) {
  const std::vector<int32_t> prompt = Numbers(200);
  const PrefixIdentity identity{"tenant", Sha256Of("model"), "adapter"};
  const PrefixRoot root = MakePrefixRoot(identity, full_);
  Serve(root, prompt);
  EXPECT_EQ(index_.Find(MakePrefixRoot(identity, full_), prompt, true).tokens, 192U);

  PrefixIdentity other = identity;
  other.tenant_salt = "tenan";
  other.adapter = "tadapter";
  EXPECT_EQ(index_.Find(MakePrefixRoot(other, full_), prompt, true).tokens, 0U);
  other = identity;
  other.tenant_salt = "adapter";
  other.adapter = "tenant";
  EXPECT_EQ(index_.Find(MakePrefixRoot(other, full_), prompt, true).tokens, 0U);
  other = identity;
  other.model_digest = Sha256Of("another model");
  EXPECT_EQ(index_.Find(MakePrefixRoot(other, full_), prompt, true).tokens, 0U);
  auto plan = std::make_shared<CacheLayout>(*full_);
  plan->plan_digest[31] ^= 1;
  EXPECT_EQ(index_.Find(MakePrefixRoot(identity, plan), prompt, true).tokens, 0U);
  auto window = std::make_shared<CacheLayout>(*full_);
  window->groups[0].window_tokens = 4096;
  EXPECT_EQ(index_.Find(MakePrefixRoot(identity, window), prompt, true).tokens, 0U);
}

TEST_F(PrefixIndexTest, KeysAreSha256OverLengthPrefixedFields) {
  // Python: h(d) = sha256(d).digest(); f(b) = len(b).to_bytes(8, "little") + b
  //   h(f(bytes(32)) + f(b"".join(i.to_bytes(4, "little") for i in range(64)))).hex()
  EXPECT_EQ(Hex(ChildKey(PrefixKey{}, Numbers(64))),
            "484e40d26533df675fc420108d8011630d00d2cc9fedfb6362b7ffd0be108df8");
}

TEST_F(PrefixIndexTest, AHitNeedsEveryBlockThatTheWindowSees) {
  const PrefixRoot root = Root(hybrid_);
  // One chunk of 640 tokens: at its end only the last 128 tokens' window blocks are left.
  Serve(root, Numbers(640), 640);
  EXPECT_EQ(index_.Find(root, Numbers(641), true).tokens, 640U);
  EXPECT_EQ(index_.Find(root, Numbers(640), true).tokens, 0U);
  EXPECT_EQ(index_.Find(root, Numbers(200), true).tokens, 0U);
}

TEST_F(PrefixIndexTest, ChunksWithinTheWindowLeaveEveryPrefixUsable) {
  const PrefixRoot root = Root(hybrid_);
  Serve(root, Numbers(640), 64);
  for (uint64_t blocks = 1; blocks <= 10; ++blocks) {
    EXPECT_EQ(index_.Find(root, Numbers(blocks * 64 + 1), true).tokens, blocks * 64);
  }
}

TEST_F(PrefixIndexTest, AHitGivesEveryKindOfPlanItsBlocks) {
  for (const auto& layout : VariedLayouts()) {
    const bool recent = std::any_of(
        layout->groups.begin(), layout->groups.end(),
        [](const GroupLayout& group) { return group.seals() && group.recent_blocks > 0; });
    const PrefixRoot root = Root(layout);
    Serve(root, Numbers(500));
    EXPECT_EQ(Serve(root, Numbers(500)), recent ? 0U : 448U);
  }
}

TEST_F(PrefixIndexTest, PlansThatKeepRecentBlocksAreNeitherEnteredNorCounted) {
  const PrefixRoot root = Root(MakeLayout({SealingGroup(0, 6400, 3200, 0, 1)}));
  Serve(root, Numbers(300));
  Serve(root, Numbers(300));
  EXPECT_EQ(index_.stats().entries, 0U);
  EXPECT_EQ(index_.stats().misses, 0U);
}

TEST_F(PrefixIndexTest, DecodedBlocksAreUsedOnlyWhereAllowed) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(300), 1, 100);
  EXPECT_EQ(index_.Find(root, Numbers(300), true).tokens, 256U);
  EXPECT_EQ(index_.Find(root, Numbers(300), false).tokens, 64U);
}

TEST_F(PrefixIndexTest, WhatFollowsADecodedBlockCountsAsDecoded) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(300), 1, 100);
  EXPECT_EQ(Serve(root, Numbers(600)), 256U);  // prefilled, but on a decoded past
  EXPECT_EQ(index_.Find(root, Numbers(600), true).tokens, 576U);
  EXPECT_EQ(index_.Find(root, Numbers(600), false).tokens, 64U);
  // A fresh prefill replaces the decoded past, which does not clear what was built on it.
  Serve(root, Numbers(300), 64, kAllPrefill, false);
  EXPECT_EQ(index_.Find(root, Numbers(600), false).tokens, 256U);
}

TEST_F(PrefixIndexTest, RemembersADecodedPastWhenItIsEnteredAgain) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(300), 1, 100);
  Request request(pool_, index_, root);
  request.Adopt(Numbers(600));
  request.Run(64, 400);  // prefilled to 400 on a past decoded from 64 on, then decoded
  index_.Clear();
  for (const int32_t token : Numbers(100, 600)) request.sequence.AddToken(token);
  request.Run(1, 400);
  EXPECT_EQ(index_.Find(root, Numbers(700), true).tokens, 640U);
  EXPECT_EQ(index_.Find(root, Numbers(700), false).tokens, 64U);
}

TEST_F(PrefixIndexTest, DecodedBlocksDoNotFillTheGapsOfPrefilledPrefixes) {
  const PrefixRoot root = Root(hybrid_);
  Serve(root, Numbers(640), 640);  // leaves window blocks 0 to 7 out
  Request decoded(pool_, index_, root);
  for (const int32_t token : Numbers(300)) decoded.sequence.AddToken(token);
  decoded.Run(1, 0);
  EXPECT_EQ(index_.Find(root, Numbers(200), false).tokens, 0U);
  Serve(root, Numbers(300), 64);
  EXPECT_EQ(index_.Find(root, Numbers(200), false).tokens, 192U);
}

TEST_F(PrefixIndexTest, APrefilledBlockTakesThePlaceOfADecodedOne) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(300), 1, 100);
  EXPECT_EQ(Serve(root, Numbers(300), 64, kAllPrefill, false), 64U);
  EXPECT_EQ(index_.Find(root, Numbers(300), false).tokens, 256U);
  EXPECT_EQ(index_.stats().held_blocks, 4U);
}

TEST_F(PrefixIndexTest, EvictsTheLeastRecentlyUsedPrefixFromItsEnd) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(256, 0));
  Serve(root, Numbers(256, 1000));
  index_.Find(root, Numbers(300, 0), true);
  EXPECT_EQ(index_.Evict(1), 3200U);
  EXPECT_EQ(index_.Find(root, Numbers(300, 1000), true).tokens, 192U);
  EXPECT_EQ(index_.Find(root, Numbers(300, 0), true).tokens, 256U);
  EXPECT_EQ(index_.Evict(4 * 3200), 4 * 3200U);
  EXPECT_EQ(index_.stats().evicted_blocks, 5U);
}

TEST_F(PrefixIndexTest, EvictFreesOnlyWhatNobodyElseUses) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(256));
  Request request(pool_, index_, root);
  EXPECT_EQ(request.Adopt(Numbers(140)), 128U);
  EXPECT_EQ(index_.Evict(~uint64_t{0}), 2 * 3200U);
  PatternCache::ExpectIntact(request.sequence);
  EXPECT_EQ(index_.Find(root, Numbers(300), true).tokens, 128U);
}

TEST_F(PrefixIndexTest, EvictTakesBlocksThatNoHitCanUseFirst) {
  const PrefixRoot root = Root(hybrid_);
  Serve(root, Numbers(128, 5000));
  // Its next token, at 767, sees window blocks 10 and 11; a hit of 11 blocks would need 9 and 10.
  Serve(root, Numbers(767), 767);
  EXPECT_EQ(index_.Find(root, Numbers(800), true).tokens, 0U);
  const uint64_t useless = 11 * 3200 + 6400;
  EXPECT_EQ(index_.Evict(useless), useless);
  EXPECT_EQ(index_.Find(root, Numbers(130, 5000), true).tokens, 128U);
  EXPECT_EQ(index_.stats().entries, 2U);
}

TEST_F(PrefixIndexTest, ASequenceInUseGivesUpItsPastWindowUnderPressure) {
  const PrefixRoot root = Root(hybrid_);
  Request request(pool_, index_, root);
  request.Adopt(Numbers(640));
  request.Run(64);
  // Ten window blocks are held, two of them by the sequence itself.
  EXPECT_EQ(index_.Evict(~uint64_t{0}), 8 * 6400U);
  EXPECT_EQ(pool_.usage().used_bytes, request.sequence.table.held_bytes());
  PatternCache::ExpectIntact(request.sequence);
  EXPECT_EQ(index_.Find(root, Numbers(641), true).tokens, 640U);
}

TEST_F(PrefixIndexTest, EntersAPastAgainThatWasEvicted) {
  const PrefixRoot root = Root(full_);
  Serve(root, Numbers(300));
  Request request(pool_, index_, root);
  for (const int32_t token : Numbers(300)) request.sequence.AddToken(token);
  request.Run(64);  // has blocks of its own: the entries keep those of the first sequence
  EXPECT_EQ(index_.Evict(~uint64_t{0}), 4 * 3200U);
  EXPECT_EQ(index_.stats().entries, 0U);
  for (const int32_t token : Numbers(200, 300)) request.sequence.AddToken(token);
  request.Run(64);
  EXPECT_EQ(index_.Find(root, Numbers(500), true).tokens, 448U);
}

TEST_F(PrefixIndexTest, ClearReleasesEveryBlock) {
  Serve(Root(hybrid_), Numbers(640));
  EXPECT_GT(pool_.usage().used_bytes, 0U);
  index_.Clear();
  EXPECT_EQ(pool_.usage().committed_bytes, 0U);
  EXPECT_EQ(index_.stats().held_bytes, 0U);
  EXPECT_EQ(index_.stats().entries, 0U);
}

}  // namespace
}  // namespace kvant
