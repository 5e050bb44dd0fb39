// The memory of all caches: blocks of several sizes under one byte budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace kvant {

// Names one block size of one pool.
enum class SizeClass : uint32_t {};

// Names one live block of one pool.
struct BlockId {
  SizeClass size_class{};
  uint32_t slot = 0;

  auto operator<=>(const BlockId&) const = default;
};

// A table or index that does not hold a block keeps no id.
using OptionalBlock = std::optional<BlockId>;

struct SizeClassUsage {
  uint64_t block_bytes = 0;
  uint64_t live_blocks = 0;
};

// All in bytes. committed = used + fragmented; budget_bytes = committed + free.
struct PoolUsage {
  uint64_t budget_bytes = 0;
  uint64_t committed_bytes = 0;              // whole pages that a live block touches
  uint64_t used_bytes = 0;                   // live blocks
  uint64_t free_bytes = 0;                   // what may still be committed
  uint64_t fragmented_bytes = 0;             // committed, but no part of a live block
  uint64_t reserved_bytes = 0;               // promised by Reserve; independent of the others
  std::vector<SizeClassUsage> size_classes;  // in the order they were added
};

// Blocks with reference counts. Each block size has a virtual range of its own, as large as the
// budget; a page of it is committed while a live block touches it and given back to the system as
// soon as none does, so that no block size starves behind the half-empty slabs of another.
//
// committed_bytes never exceeds budget_bytes.
//
// Not thread-safe: one thread (the engine's) calls the methods. Other threads may read and write
// the bytes of blocks that stay referenced meanwhile.
class BlockPool {
 public:
  explicit BlockPool(uint64_t budget_bytes);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Makes blocks of this size available; the same size gives the same class. Reserves address
  // space only. Throws Error{kOverBudget} if the system refuses that.
  // REQUIRES: block_bytes > 0.
  SizeClass AddSizeClass(uint64_t block_bytes);
  uint64_t block_bytes(SizeClass size_class) const;

  // A zero-filled block with one reference, at the lowest address that the budget allows, or
  // nothing if the budget allows none.
  std::optional<BlockId> Allocate(SizeClass size_class);

  // REQUIRES (all): a live block.
  void AddReference(BlockId block);
  // Frees the block when its last reference goes.
  void Release(BlockId block);
  uint32_t references(BlockId block) const;
  // block_bytes bytes, 64-byte aligned, at the same address while the block lives.
  uint8_t* Data(BlockId block);

  // Accounting of promises made at admission: refused if the sum would exceed the budget.
  // Allocate does not look at it; the caller allocates within what it reserved. A sum of
  // CommittedBound of blocks that fits the reservation always fits the pool.
  bool Reserve(uint64_t bytes);
  // REQUIRES: at most what is reserved.
  void Unreserve(uint64_t bytes);

  PoolUsage usage() const;

  static uint64_t page_bytes();
  // The most bytes of pages that one block of this size can touch.
  static uint64_t CommittedBound(uint64_t block_bytes);

 private:
  struct Slab {
    uint64_t block_bytes = 0;
    uint64_t stride_bytes = 0;
    uint64_t max_slots = 0;
    uint8_t* base = nullptr;
    std::vector<uint32_t> references;  // by slot, up to the highest that ever lived
    std::vector<uint16_t> page_live;   // live blocks that touch a page
    std::set<uint32_t> free_slots;     // below `references.size()`
    uint64_t live_blocks = 0;
  };
  struct PageRange {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  Slab& slab(BlockId block);
  const Slab& slab(BlockId block) const;
  PageRange PagesOf(const Slab& slab, uint64_t slot) const;
  bool Fits(const Slab& slab, uint64_t slot) const;
  std::optional<uint32_t> ChooseSlot(const Slab& slab) const;
  void TakeSlot(Slab& slab, uint32_t slot);
  void GiveBackPages(Slab& slab, uint64_t slot);

  uint64_t budget_bytes_;
  uint64_t budget_pages_;
  uint64_t committed_pages_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;
  std::vector<Slab> slabs_;
};

}  // namespace kvant
