// The blocks of one sequence, and how many bytes a sequence holds.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvant/cache/block_pool.h"
#include "kvant/cache/cache_layout.h"
#include "kvant/kernel/kv_block.h"

namespace kvant {

// The first block that a token at `position` or any later one sees in this group.
uint64_t FirstVisibleBlock(const GroupLayout& group, uint64_t position);

// How the bytes of a block are counted.
enum class ByteCount {
  kBlocks,     // the block's own bytes
  kCommitted,  // the most that it can cost a pool's budget, its partly used pages included
};

// The most bytes that the blocks of one sequence hold at once while it grows to `tokens`, in any
// steps of at most chunk_tokens. With kCommitted the result fits Reserve: as long as the sum over
// all sequences is within a pool's budget and nothing else holds blocks, no Prepare fails.
// Throws Error{kInvalidInput} if the result does not fit 64 bits. REQUIRES: chunk_tokens > 0.
uint64_t PeakBytes(const CacheLayout& layout, uint64_t tokens, uint64_t chunk_tokens,
                   ByteCount count = ByteCount::kCommitted);

// A bound on what a step of up to chunk_tokens holds beyond PeakBytes(layout, tokens, 1), whatever
// the tokens: blocks of the chunk that are still open, and those that are about to leave a window.
// Where only one sequence at a time makes such a step, all of them share this much.
// REQUIRES: chunk_tokens > 0.
uint64_t StepHeadroomBytes(const CacheLayout& layout, uint64_t chunk_tokens);

// The blocks of one sequence, for every layer group of its plan (docs/design/cache.md). A step is
//   Prepare(m)  blocks for m more tokens exist, writable, nowhere shared
//   kernels     write the tokens, seal the blocks in blocks_to_seal(), attend
//   Commit(m)   forms and blocks that nobody needs any more are released
// Not thread-safe; kernels may use the pointers from any thread between Prepare and Commit.
// The pool outlives the table.
class BlockTable {
 public:
  BlockTable(BlockPool& pool, std::shared_ptr<const CacheLayout> layout);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  const CacheLayout& layout() const { return *layout_; }
  uint64_t tokens() const { return tokens_; }

  // Allocates, zero-filled, every open or append block that tokens [tokens(), tokens() + m) need
  // and the sealed form of every block that becomes sealed by the end of the step; copies the
  // partly filled block first if another table shares it. All or nothing: false, and nothing has
  // changed, if the pool lacks room.
  // REQUIRES: not prepared; num_new_tokens > 0.
  bool Prepare(uint64_t num_new_tokens);

  // REQUIRES: prepared for exactly num_new_tokens.
  void Commit(uint64_t num_new_tokens);

  // Takes a Prepare back: blocks it allocated are released. A copy of a shared block stays, since
  // it holds the same tokens. REQUIRES: prepared.
  void Abandon();

  // At most this many bytes of the pool's budget are newly committed by Prepare(num_new_tokens),
  // which succeeds if usage().free_bytes is at least that.
  uint64_t BytesFor(uint64_t num_new_tokens) const;

  // By block number from 0; null where a form is absent. With open_is_sealed both pointers of a
  // block are the same. Valid until the next call that is not const.
  std::span<const BlockPointers> blocks(size_t group) const;

  // Block numbers [first, second) that this step must seal: both forms exist until Commit. Empty
  // in a group that never seals. REQUIRES: prepared.
  std::pair<uint64_t, uint64_t> blocks_to_seal(size_t group) const;

  // Another sequence with the same past. All blocks are shared; whichever of the two first writes
  // to the partly filled block copies it. REQUIRES: not prepared.
  BlockTable Fork() const;

  // Block `number` in the form in which later tokens see it for good: sealed, or open if it is a
  // sink. Nothing if it has left the window, is not complete, or is still a recent block.
  OptionalBlock FinalBlock(size_t group, uint64_t number) const;

  // Starts the sequence with `tokens` tokens that already lie in the pool: blocks[group][number],
  // as FinalBlock gave them, for every number from FirstVisibleBlock(group, tokens) on; others are
  // ignored. Adds references. REQUIRES: an empty table; tokens a multiple of 64; the plan keeps no
  // recent blocks in 16 bits.
  void AdoptPrefix(uint64_t tokens, const std::vector<std::vector<OptionalBlock>>& blocks);

  // Sum of block_bytes over the blocks that this table refers to.
  uint64_t held_bytes() const;
  // Every block that this table refers to, each once.
  std::vector<BlockId> HeldBlocks() const;

  // Releases everything; an empty table again. Allowed while prepared (a cancelled request).
  void Clear();

 private:
  struct Forms {
    OptionalBlock open;
    OptionalBlock sealed;
  };
  struct Group {
    SizeClass open_class{};
    SizeClass sealed_class{};
    uint64_t first_block = 0;  // blocks below have been dropped
    std::vector<Forms> forms;
    std::vector<BlockPointers> pointers;
  };
  // A block that Prepare must allocate.
  struct Need {
    size_t group = 0;
    uint64_t number = 0;
    bool sealed = false;
    bool copy = false;
  };

  std::vector<Need> NeedsFor(uint64_t num_new_tokens) const;
  SizeClass ClassOf(const Need& need) const;
  bool IsShared(size_t group, uint64_t number) const;
  std::pair<uint64_t, uint64_t> SealRange(size_t group, uint64_t num_new_tokens) const;
  void Install(const Need& need, BlockId block);
  void ReleaseForm(OptionalBlock* form);
  void UpdatePointers(Group& group, size_t index, uint64_t number);
  void DropBlocksBelow(size_t group, uint64_t number);
  template <typename Visitor>
  void VisitHeld(const Visitor& visit) const;

  BlockPool* pool_;
  std::shared_ptr<const CacheLayout> layout_;
  uint64_t tokens_ = 0;
  uint64_t prepared_tokens_ = 0;  // 0: not prepared
  std::vector<Group> groups_;
  std::vector<Need> prepared_;  // what Prepare allocated, copies left out
};

}  // namespace kvant
