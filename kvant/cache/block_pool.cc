#include "kvant/cache/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVANT_CACHE_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KVANT_CACHE_POISON 1
#endif
#ifdef KVANT_CACHE_POISON
#include <sanitizer/asan_interface.h>
#endif

namespace kvant {
namespace {

// AddressSanitizer reports a kernel that still uses a block after its release.
void AllowUse([[maybe_unused]] const uint8_t* data, [[maybe_unused]] uint64_t bytes) {
#ifdef KVANT_CACHE_POISON
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}
void ForbidUse([[maybe_unused]] const uint8_t* data, [[maybe_unused]] uint64_t bytes) {
#ifdef KVANT_CACHE_POISON
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

// A cache line, and the widest vector that a kernel loads.
constexpr uint64_t kAlignment = 64;

uint8_t* MapRange(uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    throw Error(ErrorCode::kOverBudget,
                "the system refuses " + FormatBytes(bytes) + " of address space for the KV cache",
                "lower the memory budget, or raise the limit (ulimit -v, vm.overcommit_memory)");
  }
  // A huge page commits 2 MiB where the budget counted 4 KiB.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  return static_cast<uint8_t*>(base);
}

uint64_t StrideOf(uint64_t block_bytes) { return RoundUp(block_bytes, kAlignment); }

}  // namespace

uint64_t BlockPool::page_bytes() {
  static const uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

uint64_t BlockPool::CommittedBound(uint64_t block_bytes) {
  // Slots begin at multiples of the stride, so their offsets within a page are multiples of this.
  const uint64_t offset_step = std::gcd(StrideOf(block_bytes), page_bytes());
  return RoundUp(page_bytes() - offset_step + block_bytes, page_bytes());
}

BlockPool::BlockPool(uint64_t budget_bytes)
    : budget_bytes_(budget_bytes), budget_pages_(budget_bytes / page_bytes()) {}

BlockPool::~BlockPool() {
  for (const Slab& slab : slabs_) {
    if (slab.base == nullptr) continue;
    AllowUse(slab.base, slab.page_live.size() * page_bytes());  // for whoever maps it next
    munmap(slab.base, budget_pages_ * page_bytes());
  }
}

SizeClass BlockPool::AddSizeClass(uint64_t block_bytes) {
  KVANT_CHECK(block_bytes > 0);
  const auto same = [&](const Slab& slab) { return slab.block_bytes == block_bytes; };
  const auto found = std::find_if(slabs_.begin(), slabs_.end(), same);
  if (found != slabs_.end()) return SizeClass(static_cast<uint32_t>(found - slabs_.begin()));

  Slab slab;
  slab.block_bytes = block_bytes;
  const uint64_t range_bytes = budget_pages_ * page_bytes();
  if (block_bytes <= range_bytes) {  // so that rounding up cannot overflow
    slab.stride_bytes = StrideOf(block_bytes);
    slab.max_slots =
        std::min<uint64_t>(range_bytes / slab.stride_bytes, std::numeric_limits<uint32_t>::max());
    slab.base = MapRange(range_bytes);
  }
  slabs_.push_back(std::move(slab));
  return SizeClass(static_cast<uint32_t>(slabs_.size() - 1));
}

uint64_t BlockPool::block_bytes(SizeClass size_class) const {
  const size_t index = static_cast<size_t>(size_class);
  KVANT_CHECK(index < slabs_.size());
  return slabs_[index].block_bytes;
}

std::optional<BlockId> BlockPool::Allocate(SizeClass size_class) {
  const size_t index = static_cast<size_t>(size_class);
  KVANT_CHECK(index < slabs_.size());
  Slab& slab = slabs_[index];
  const std::optional<uint32_t> slot = ChooseSlot(slab);
  if (!slot) return std::nullopt;
  TakeSlot(slab, *slot);
  uint8_t* data = slab.base + *slot * slab.stride_bytes;
  AllowUse(data, slab.block_bytes);
  std::memset(data, 0, slab.block_bytes);
  return BlockId{size_class, *slot};
}

void BlockPool::AddReference(BlockId block) {
  uint32_t& count = slab(block).references[block.slot];
  KVANT_CHECK(count < std::numeric_limits<uint32_t>::max());
  ++count;
}

void BlockPool::Release(BlockId block) {
  Slab& owner = slab(block);
  if (--owner.references[block.slot] > 0) return;
  used_bytes_ -= owner.block_bytes;
  --owner.live_blocks;
  GiveBackPages(owner, block.slot);
  ForbidUse(owner.base + block.slot * owner.stride_bytes, owner.block_bytes);
  owner.free_slots.insert(block.slot);
  while (!owner.references.empty() && owner.references.back() == 0) {
    owner.references.pop_back();
    owner.free_slots.erase(static_cast<uint32_t>(owner.references.size()));
  }
}

uint32_t BlockPool::references(BlockId block) const { return slab(block).references[block.slot]; }

uint8_t* BlockPool::Data(BlockId block) {
  const Slab& owner = slab(block);
  return owner.base + block.slot * owner.stride_bytes;
}

bool BlockPool::Reserve(uint64_t bytes) {
  if (bytes > budget_bytes_ - reserved_bytes_) return false;
  reserved_bytes_ += bytes;
  return true;
}

void BlockPool::Unreserve(uint64_t bytes) {
  KVANT_CHECK(bytes <= reserved_bytes_);
  reserved_bytes_ -= bytes;
}

PoolUsage BlockPool::usage() const {
  PoolUsage usage;
  usage.budget_bytes = budget_bytes_;
  usage.committed_bytes = committed_pages_ * page_bytes();
  usage.used_bytes = used_bytes_;
  usage.free_bytes = budget_bytes_ - usage.committed_bytes;
  usage.fragmented_bytes = usage.committed_bytes - used_bytes_;
  usage.reserved_bytes = reserved_bytes_;
  for (const Slab& slab : slabs_) {
    usage.size_classes.push_back({slab.block_bytes, slab.live_blocks});
  }
  return usage;
}

const BlockPool::Slab& BlockPool::slab(BlockId block) const {
  const size_t index = static_cast<size_t>(block.size_class);
  KVANT_CHECK(index < slabs_.size());
  const Slab& owner = slabs_[index];
  KVANT_CHECK(block.slot < owner.references.size() && owner.references[block.slot] > 0);
  return owner;
}

BlockPool::Slab& BlockPool::slab(BlockId block) {
  return const_cast<Slab&>(static_cast<const BlockPool*>(this)->slab(block));
}

BlockPool::PageRange BlockPool::PagesOf(const Slab& slab, uint64_t slot) const {
  const uint64_t begin = slot * slab.stride_bytes;
  return {begin / page_bytes(), DivideRoundUp(begin + slab.block_bytes, page_bytes())};
}

bool BlockPool::Fits(const Slab& slab, uint64_t slot) const {
  const PageRange pages = PagesOf(slab, slot);
  uint64_t missing = 0;
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (page >= slab.page_live.size() || slab.page_live[page] == 0) ++missing;
  }
  return committed_pages_ + missing <= budget_pages_;
}

std::optional<uint32_t> BlockPool::ChooseSlot(const Slab& slab) const {
  // Usually the first fits; at the budget's edge another may share more of its pages with
  // neighbours.
  for (const uint32_t slot : slab.free_slots) {
    if (Fits(slab, slot)) return slot;
  }
  const uint64_t next = slab.references.size();
  if (next < slab.max_slots && Fits(slab, next)) return static_cast<uint32_t>(next);
  return std::nullopt;
}

void BlockPool::TakeSlot(Slab& slab, uint32_t slot) {
  if (slot == slab.references.size()) {
    slab.references.push_back(0);
  } else {
    slab.free_slots.erase(slot);
  }
  slab.references[slot] = 1;
  ++slab.live_blocks;
  used_bytes_ += slab.block_bytes;
  const PageRange pages = PagesOf(slab, slot);
  if (slab.page_live.size() < pages.end) slab.page_live.resize(pages.end, 0);
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (slab.page_live[page]++ == 0) ++committed_pages_;
  }
}

void BlockPool::GiveBackPages(Slab& slab, uint64_t slot) {
  const PageRange pages = PagesOf(slab, slot);
  PageRange empty{pages.begin, pages.begin};
  // Only the first and the last page can be shared, so the empty ones are one run.
  for (uint64_t page = pages.begin; page < pages.end; ++page) {
    if (--slab.page_live[page] > 0) continue;
    --committed_pages_;
    if (empty.begin == empty.end) empty.begin = page;
    empty.end = page + 1;
  }
  if (empty.begin == empty.end) return;
  const int failed = madvise(slab.base + empty.begin * page_bytes(),
                             (empty.end - empty.begin) * page_bytes(), MADV_DONTNEED);
  KVANT_CHECK(failed == 0);
}

}  // namespace kvant
