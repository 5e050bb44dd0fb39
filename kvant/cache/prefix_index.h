// Complete blocks that any later sequence with the same past may use.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvant/cache/block_pool.h"
#include "kvant/cache/block_table.h"
#include "kvant/cache/cache_layout.h"
#include "kvant/core/sha256.h"

namespace kvant {

// Names a block by everything that its bytes depend on: a SHA-256 chain over the tokens of the
// block and of all before it, from a root that names tenant, model, plan and adapter.
using PrefixKey = Digest;

// tenant_salt: set by the server for each tenant that must not share blocks with others (it is
// never taken from a request). model_digest covers weights, tokenizer and RoPE parameters.
struct PrefixIdentity {
  std::string tenant_salt;
  Digest model_digest{};
  std::string adapter;  // empty: none
};

struct PrefixRoot {
  PrefixKey key{};
  std::shared_ptr<const CacheLayout> layout;
};

PrefixRoot MakePrefixRoot(const PrefixIdentity& identity,
                          std::shared_ptr<const CacheLayout> layout);

// REQUIRES: kBlockTokens tokens.
PrefixKey ChildKey(const PrefixKey& parent, std::span<const int32_t> block_tokens);

// Whether a block, and every block before it, was written by prefill. What decoding writes may
// differ from it by rounding.
enum class BlockOrigin : uint8_t { kPrefill, kDecode };

// How far a sequence's blocks have been entered into the index. Starts default-constructed, or as
// the hit that the sequence started from.
struct PrefixCursor {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  PrefixKey key{};                // of the last block entered; meaningless if blocks is 0
  uint64_t blocks = 0;            // entered so far
  uint64_t decoded_from = kNone;  // the first block that decoding wrote
};

// The longest usable prefix: tokens is a multiple of 64, 0 for a miss. blocks[group][number] is
// what BlockTable::AdoptPrefix takes. Holds no references: adopt it before any other call to the
// index, or drop it.
struct PrefixHit {
  uint64_t tokens = 0;
  PrefixCursor cursor;
  std::vector<std::vector<OptionalBlock>> blocks;
};

struct PrefixStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t hit_tokens = 0;
  uint64_t evicted_blocks = 0;
  uint64_t entries = 0;
  uint64_t held_blocks = 0;
  uint64_t held_bytes = 0;  // those shared with live sequences included
};

// Holds a reference to every block in it. Not thread-safe: the engine's thread only. The pool
// outlives the index.
class PrefixIndex {
 public:
  explicit PrefixIndex(BlockPool& pool);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Enters the complete blocks of `table` that lie beyond the cursor, and moves the cursor.
  // tokens: the sequence's tokens from position 0, at least table.tokens(). Blocks that lie
  // wholly within the first prefill_tokens count as written by prefill, unless they follow a
  // decoded one. A block that is there already is kept, except that one written by prefill takes
  // the place of a decoded one, and that what the entry lacks is added. Call it after each Commit:
  // later a sliding window may have dropped blocks that a hit would need.
  // Does nothing for a plan that keeps recent blocks in 16 bits. REQUIRES: table not prepared.
  void Insert(const PrefixRoot& root, std::span<const int32_t> tokens, uint64_t prefill_tokens,
              const BlockTable& table, PrefixCursor* cursor);

  // The longest prefix of whole blocks, at least one token shorter than the prompt, for which every
  // layer group holds all that the next token sees. Without allow_decoded only blocks written by
  // prefill count. Each call counts as one hit or miss, except for a plan that keeps recent
  // blocks in 16 bits, which never hits.
  PrefixHit Find(const PrefixRoot& root, std::span<const int32_t> prompt, bool allow_decoded);

  // Releases blocks that only the index refers to until `bytes_wanted` bytes of blocks are free or
  // none is left, and returns the bytes freed. First go blocks that no hit can use any more, then
  // the least recently used prefixes from their ends, then single blocks of prefixes in use.
  // Visits every entry: better asked once for much than often for one block.
  uint64_t Evict(uint64_t bytes_wanted);

  // Forgets everything.
  void Clear();

  PrefixStats stats() const;
  // Every block that the index refers to, once per reference.
  std::vector<BlockId> HeldBlocks() const;

 private:
  struct Entry {
    PrefixKey key{};
    Entry* parent = nullptr;  // null: the root
    std::vector<Entry*> children;
    std::shared_ptr<const CacheLayout> layout;
    uint64_t number = 0;                // of the block
    std::vector<OptionalBlock> blocks;  // per group
    BlockOrigin origin = BlockOrigin::kPrefill;
    uint64_t last_use = 0;
    // Of the last Evict. run: blocks held without a gap up to this one, per group; next_hit: blocks
    // of the shortest prefix through this entry that can be hit.
    std::vector<uint64_t> run;
    uint64_t next_hit = 0;
  };
  struct KeyHash {
    size_t operator()(const PrefixKey& key) const;
  };

  Entry& EntryFor(const PrefixRoot& root, const PrefixKey& key, Entry* parent, uint64_t number);
  void Fill(Entry& entry, BlockOrigin origin, const BlockTable& table);
  uint64_t ReleaseBlock(OptionalBlock* block);
  uint64_t ReleaseIfUnshared(OptionalBlock* block);
  bool IsUnshared(const Entry& entry) const;
  void Remove(Entry* entry);
  std::vector<Entry*> EntriesByDepth();
  void MarkUsable(const std::vector<Entry*>& by_depth);
  uint64_t EvictUnusable(uint64_t bytes_wanted);
  uint64_t EvictLeaves(uint64_t bytes_wanted);
  uint64_t EvictSingleBlocks(uint64_t bytes_wanted);

  BlockPool* pool_;
  std::unordered_map<PrefixKey, Entry, KeyHash> entries_;
  uint64_t clock_ = 0;  // counts calls
  PrefixStats counts_;
};

}  // namespace kvant
