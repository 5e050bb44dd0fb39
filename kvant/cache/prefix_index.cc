#include "kvant/cache/prefix_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <queue>

#include "kvant/core/error.h"
#include "kvant/format/kv_format.h"

namespace kvant {
namespace {

bool KeepsRecentBlocks(const CacheLayout& layout) {
  return std::any_of(layout.groups.begin(), layout.groups.end(), [](const GroupLayout& group) {
    return group.seals() && group.recent_blocks > 0;
  });
}

// How many blocks before a prefix's end its next token sees.
uint64_t BlocksSeen(const GroupLayout& group, uint64_t prefix_blocks) {
  return prefix_blocks - FirstVisibleBlock(group, prefix_blocks * kBlockTokens);
}

// Extends runs of held blocks by one entry; true if a prefix that ends here can be hit.
bool ExtendRuns(const CacheLayout& layout, const std::vector<OptionalBlock>& blocks,
                uint64_t prefix_blocks, std::vector<uint64_t>* run) {
  bool complete = true;
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    (*run)[g] = blocks[g] ? (*run)[g] + 1 : 0;
    complete = complete && (*run)[g] >= BlocksSeen(layout.groups[g], prefix_blocks);
  }
  return complete;
}

}  // namespace

PrefixRoot MakePrefixRoot(const PrefixIdentity& identity,
                          std::shared_ptr<const CacheLayout> layout) {
  Sha256 hash;
  hash.Field("kvant prefix root 1").Field(identity.tenant_salt).Field(identity.model_digest);
  hash.Field(layout->plan_digest).Field(identity.adapter).Field(layout->groups.size());
  for (const GroupLayout& group : layout->groups) {
    hash.Field(group.layers.size());
    for (const uint32_t layer : group.layers) hash.Field(uint64_t{layer});
    hash.Field(uint64_t{group.window_tokens});
  }
  return {hash.Finish(), std::move(layout)};
}

PrefixKey ChildKey(const PrefixKey& parent, std::span<const int32_t> block_tokens) {
  KVANT_CHECK(block_tokens.size() == kBlockTokens);
  std::array<uint8_t, kBlockTokens * 4> bytes;  // little-endian on every machine
  for (size_t i = 0; i < kBlockTokens; ++i) {
    const uint32_t token = static_cast<uint32_t>(block_tokens[i]);
    for (size_t b = 0; b < 4; ++b) bytes[4 * i + b] = static_cast<uint8_t>(token >> (8 * b));
  }
  Sha256 hash;
  hash.Field(parent).Field(bytes);
  return hash.Finish();
}

size_t PrefixIndex::KeyHash::operator()(const PrefixKey& key) const {
  size_t hash;
  std::memcpy(&hash, key.data(), sizeof(hash));
  return hash;
}

PrefixIndex::PrefixIndex(BlockPool& pool) : pool_(&pool) {}

PrefixIndex::~PrefixIndex() { Clear(); }

void PrefixIndex::Insert(const PrefixRoot& root, std::span<const int32_t> tokens,
                         uint64_t prefill_tokens, const BlockTable& table, PrefixCursor* cursor) {
  if (KeepsRecentBlocks(*root.layout)) return;
  KVANT_CHECK(tokens.size() >= table.tokens());
  const uint64_t complete = table.tokens() / kBlockTokens;
  if (cursor->blocks >= complete) return;
  ++clock_;
  Entry* parent = nullptr;
  if (cursor->blocks > 0) {
    const auto found = entries_.find(cursor->key);
    if (found != entries_.end()) {
      parent = &found->second;
    } else {
      cursor->blocks = 0;  // evicted meanwhile: enter the whole chain again
    }
  }
  if (cursor->blocks == 0) cursor->key = root.key;
  for (; cursor->blocks < complete; ++cursor->blocks) {
    const uint64_t number = cursor->blocks;
    if ((number + 1) * kBlockTokens > prefill_tokens) {
      cursor->decoded_from = std::min(cursor->decoded_from, number);
    }
    cursor->key = ChildKey(cursor->key, tokens.subspan(number * kBlockTokens, kBlockTokens));
    Entry& entry = EntryFor(root, cursor->key, parent, number);
    const bool decoded = number >= cursor->decoded_from;
    Fill(entry, decoded ? BlockOrigin::kDecode : BlockOrigin::kPrefill, table);
    parent = &entry;
  }
}

PrefixHit PrefixIndex::Find(const PrefixRoot& root, std::span<const int32_t> prompt,
                            bool allow_decoded) {
  PrefixHit hit;
  const CacheLayout& layout = *root.layout;
  if (KeepsRecentBlocks(layout)) return hit;
  ++clock_;
  const uint64_t max_blocks = prompt.empty() ? 0 : (prompt.size() - 1) / kBlockTokens;
  std::vector<Entry*> path;
  std::vector<uint64_t> run(layout.groups.size(), 0);
  PrefixKey key = root.key;
  uint64_t best = 0;
  for (uint64_t number = 0; number < max_blocks; ++number) {
    key = ChildKey(key, prompt.subspan(number * kBlockTokens, kBlockTokens));
    const auto found = entries_.find(key);
    if (found == entries_.end()) break;
    Entry& entry = found->second;
    if (entry.origin == BlockOrigin::kDecode && !allow_decoded) break;
    path.push_back(&entry);
    if (ExtendRuns(layout, entry.blocks, number + 1, &run)) best = number + 1;
  }
  if (best == 0) {
    ++counts_.misses;
    return hit;
  }
  path.resize(best);
  hit.tokens = best * kBlockTokens;
  hit.cursor.key = path.back()->key;
  hit.cursor.blocks = best;
  hit.blocks.assign(layout.groups.size(), std::vector<OptionalBlock>(best));
  for (Entry* entry : path) {
    entry->last_use = clock_;
    if (entry->origin == BlockOrigin::kDecode) {
      hit.cursor.decoded_from = std::min(hit.cursor.decoded_from, entry->number);
    }
    for (size_t g = 0; g < entry->blocks.size(); ++g) {
      hit.blocks[g][entry->number] = entry->blocks[g];
    }
  }
  ++counts_.hits;
  counts_.hit_tokens += hit.tokens;
  return hit;
}

uint64_t PrefixIndex::Evict(uint64_t bytes_wanted) {
  uint64_t freed = EvictUnusable(bytes_wanted);
  if (freed < bytes_wanted) freed += EvictLeaves(bytes_wanted - freed);
  if (freed < bytes_wanted) freed += EvictSingleBlocks(bytes_wanted - freed);
  return freed;
}

void PrefixIndex::Clear() {
  for (auto& [key, entry] : entries_) {
    for (OptionalBlock& block : entry.blocks) ReleaseBlock(&block);
  }
  entries_.clear();
}

PrefixStats PrefixIndex::stats() const {
  PrefixStats stats = counts_;
  stats.entries = entries_.size();
  return stats;
}

std::vector<BlockId> PrefixIndex::HeldBlocks() const {
  std::vector<BlockId> held;
  for (const auto& [key, entry] : entries_) {
    for (const OptionalBlock& block : entry.blocks) {
      if (block) held.push_back(*block);
    }
  }
  return held;
}

PrefixIndex::Entry& PrefixIndex::EntryFor(const PrefixRoot& root, const PrefixKey& key,
                                          Entry* parent, uint64_t number) {
  const auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  entry.last_use = clock_;
  if (!is_new) return entry;
  entry.key = key;
  entry.parent = parent;
  entry.layout = root.layout;
  entry.number = number;
  entry.blocks.resize(root.layout->groups.size());
  if (parent != nullptr) parent->children.push_back(&entry);
  return entry;
}

void PrefixIndex::Fill(Entry& entry, BlockOrigin origin, const BlockTable& table) {
  const bool empty = std::none_of(entry.blocks.begin(), entry.blocks.end(),
                                  [](const OptionalBlock& block) { return block.has_value(); });
  const bool better = entry.origin == BlockOrigin::kDecode && origin == BlockOrigin::kPrefill;
  if (empty) {
    entry.origin = origin;
  } else if (better) {
    for (OptionalBlock& block : entry.blocks) ReleaseBlock(&block);
    entry.origin = origin;
  } else if (origin == BlockOrigin::kDecode && entry.origin == BlockOrigin::kPrefill) {
    return;  // would mix decoded blocks into an entry that promises prefill's
  }
  for (size_t g = 0; g < entry.blocks.size(); ++g) {
    if (entry.blocks[g]) continue;
    entry.blocks[g] = table.FinalBlock(g, entry.number);
    if (!entry.blocks[g]) continue;
    pool_->AddReference(*entry.blocks[g]);
    ++counts_.held_blocks;
    counts_.held_bytes += pool_->block_bytes(entry.blocks[g]->size_class);
  }
}

uint64_t PrefixIndex::ReleaseBlock(OptionalBlock* block) {
  if (!block->has_value()) return 0;
  const uint64_t bytes = pool_->block_bytes((*block)->size_class);
  pool_->Release(**block);
  block->reset();
  --counts_.held_blocks;
  counts_.held_bytes -= bytes;
  return bytes;
}

uint64_t PrefixIndex::ReleaseIfUnshared(OptionalBlock* block) {
  if (!block->has_value() || pool_->references(**block) > 1) return 0;
  ++counts_.evicted_blocks;
  return ReleaseBlock(block);
}

bool PrefixIndex::IsUnshared(const Entry& entry) const {
  return std::all_of(entry.blocks.begin(), entry.blocks.end(), [this](const OptionalBlock& block) {
    return !block.has_value() || pool_->references(*block) == 1;
  });
}

void PrefixIndex::Remove(Entry* entry) {
  if (entry->parent != nullptr) std::erase(entry->parent->children, entry);
  entries_.erase(PrefixKey(entry->key));
}

std::vector<PrefixIndex::Entry*> PrefixIndex::EntriesByDepth() {
  std::vector<Entry*> entries;
  entries.reserve(entries_.size());
  for (auto& [key, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const Entry* a, const Entry* b) { return a->number < b->number; });
  return entries;
}

void PrefixIndex::MarkUsable(const std::vector<Entry*>& by_depth) {
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  for (Entry* entry : by_depth) {
    if (entry->parent != nullptr) {
      entry->run = entry->parent->run;
    } else {
      entry->run.assign(entry->blocks.size(), 0);
    }
    const uint64_t prefix_blocks = entry->number + 1;
    const bool complete = ExtendRuns(*entry->layout, entry->blocks, prefix_blocks, &entry->run);
    entry->next_hit = complete ? prefix_blocks : kNever;
  }
  for (auto entry = by_depth.rbegin(); entry != by_depth.rend(); ++entry) {
    Entry* parent = (*entry)->parent;
    if (parent != nullptr) parent->next_hit = std::min(parent->next_hit, (*entry)->next_hit);
  }
}

uint64_t PrefixIndex::EvictUnusable(uint64_t bytes_wanted) {
  const std::vector<Entry*> by_depth = EntriesByDepth();
  MarkUsable(by_depth);
  uint64_t freed = 0;
  for (auto next = by_depth.rbegin(); next != by_depth.rend(); ++next) {
    Entry* entry = *next;
    bool empty = true;
    for (size_t g = 0; g < entry->blocks.size(); ++g) {
      const GroupLayout& group = entry->layout->groups[g];
      const bool usable = entry->next_hit != std::numeric_limits<uint64_t>::max() &&
                          FirstVisibleBlock(group, entry->next_hit * kBlockTokens) <= entry->number;
      if (!usable && freed < bytes_wanted) freed += ReleaseIfUnshared(&entry->blocks[g]);
      empty = empty && !entry->blocks[g];
    }
    if (empty && entry->children.empty()) Remove(entry);
  }
  return freed;
}

uint64_t PrefixIndex::EvictLeaves(uint64_t bytes_wanted) {
  const auto used_later = [](const Entry* a, const Entry* b) {
    return a->last_use != b->last_use ? a->last_use > b->last_use : a->number < b->number;
  };
  std::vector<Entry*> start;
  for (auto& [key, entry] : entries_) {
    if (entry.children.empty()) start.push_back(&entry);
  }
  std::priority_queue<Entry*, std::vector<Entry*>, decltype(used_later)> leaves(used_later,
                                                                                std::move(start));
  uint64_t freed = 0;
  while (freed < bytes_wanted && !leaves.empty()) {
    Entry* leaf = leaves.top();
    leaves.pop();
    if (!IsUnshared(*leaf)) continue;
    for (OptionalBlock& block : leaf->blocks) freed += ReleaseIfUnshared(&block);
    Entry* parent = leaf->parent;
    Remove(leaf);
    if (parent != nullptr && parent->children.empty()) leaves.push(parent);
  }
  return freed;
}

uint64_t PrefixIndex::EvictSingleBlocks(uint64_t bytes_wanted) {
  std::vector<Entry*> entries = EntriesByDepth();
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    return a->last_use != b->last_use ? a->last_use < b->last_use : a->number > b->number;
  });
  uint64_t freed = 0;
  for (Entry* entry : entries) {
    for (OptionalBlock& block : entry->blocks) {
      if (freed >= bytes_wanted) return freed;
      freed += ReleaseIfUnshared(&block);
    }
  }
  return freed;
}

}  // namespace kvant
