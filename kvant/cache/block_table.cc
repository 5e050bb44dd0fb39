#include "kvant/cache/block_table.h"

#include <algorithm>
#include <cstring>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/format/kv_format.h"

namespace kvant {
namespace {

uint64_t SaturatingSubtract(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// The first block that is not sealed once `tokens` tokens have been committed, sinks aside.
uint64_t SealBoundary(const GroupLayout& group, uint64_t tokens) {
  return SaturatingSubtract(tokens / kBlockTokens, group.recent_blocks);
}

}  // namespace

uint64_t FirstVisibleBlock(const GroupLayout& group, uint64_t position) {
  if (group.window_tokens == 0 || position < group.window_tokens) return 0;
  return (position - group.window_tokens + 1) / kBlockTokens;
}

BlockTable::BlockTable(BlockPool& pool, std::shared_ptr<const CacheLayout> layout)
    : pool_(&pool), layout_(std::move(layout)) {
  for (const GroupLayout& group : layout_->groups) {
    KVANT_CHECK(!group.open_is_sealed || group.append ||
                group.open_block_bytes == group.sealed_block_bytes);
    Group state;
    if (!group.append) state.open_class = pool.AddSizeClass(group.open_block_bytes);
    state.sealed_class = pool.AddSizeClass(group.sealed_block_bytes);
    groups_.push_back(std::move(state));
  }
}

BlockTable::~BlockTable() { Clear(); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      layout_(other.layout_),
      tokens_(std::exchange(other.tokens_, 0)),
      prepared_tokens_(std::exchange(other.prepared_tokens_, 0)),
      groups_(std::exchange(other.groups_, {})),
      prepared_(std::exchange(other.prepared_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  pool_ = other.pool_;
  layout_ = other.layout_;
  tokens_ = std::exchange(other.tokens_, 0);
  prepared_tokens_ = std::exchange(other.prepared_tokens_, 0);
  groups_ = std::exchange(other.groups_, {});
  prepared_ = std::exchange(other.prepared_, {});
  return *this;
}

bool BlockTable::Prepare(uint64_t num_new_tokens) {
  KVANT_CHECK(prepared_tokens_ == 0 && num_new_tokens > 0);
  const std::vector<Need> needs = NeedsFor(num_new_tokens);
  std::vector<BlockId> allocated;
  allocated.reserve(needs.size());
  for (const Need& need : needs) {
    const OptionalBlock block = pool_->Allocate(ClassOf(need));
    if (!block) {
      for (const BlockId taken : allocated) pool_->Release(taken);
      return false;
    }
    allocated.push_back(*block);
  }
  for (size_t i = 0; i < needs.size(); ++i) {
    Install(needs[i], allocated[i]);
    if (!needs[i].copy) prepared_.push_back(needs[i]);
  }
  prepared_tokens_ = num_new_tokens;
  return true;
}

void BlockTable::Commit(uint64_t num_new_tokens) {
  KVANT_CHECK(prepared_tokens_ > 0 && prepared_tokens_ == num_new_tokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto [begin, end] = SealRange(g, num_new_tokens);
    for (uint64_t number = begin; number < end; ++number) {
      ReleaseForm(&groups_[g].forms[number].open);
      UpdatePointers(groups_[g], g, number);
    }
  }
  tokens_ += num_new_tokens;
  prepared_tokens_ = 0;
  prepared_.clear();
  for (size_t g = 0; g < groups_.size(); ++g) {
    DropBlocksBelow(g, FirstVisibleBlock(layout_->groups[g], tokens_));
  }
}

void BlockTable::Abandon() {
  KVANT_CHECK(prepared_tokens_ > 0);
  for (const Need& need : prepared_) {
    Forms& forms = groups_[need.group].forms[need.number];
    ReleaseForm(need.sealed ? &forms.sealed : &forms.open);
    UpdatePointers(groups_[need.group], need.group, need.number);
  }
  for (Group& group : groups_) {
    group.forms.resize(DivideRoundUp(tokens_, kBlockTokens));
    group.pointers.resize(group.forms.size());
  }
  prepared_.clear();
  prepared_tokens_ = 0;
}

uint64_t BlockTable::BytesFor(uint64_t num_new_tokens) const {
  KVANT_CHECK(prepared_tokens_ == 0);
  uint64_t bytes = 0;
  for (const Need& need : NeedsFor(num_new_tokens)) {
    bytes += BlockPool::CommittedBound(pool_->block_bytes(ClassOf(need)));
  }
  return bytes;
}

std::span<const BlockPointers> BlockTable::blocks(size_t group) const {
  return groups_[group].pointers;
}

std::pair<uint64_t, uint64_t> BlockTable::blocks_to_seal(size_t group) const {
  KVANT_CHECK(prepared_tokens_ > 0);
  return SealRange(group, prepared_tokens_);
}

BlockTable BlockTable::Fork() const {
  KVANT_CHECK(prepared_tokens_ == 0);
  BlockTable fork(*pool_, layout_);
  fork.tokens_ = tokens_;
  fork.groups_ = groups_;
  VisitHeld([this](BlockId block) { pool_->AddReference(block); });
  return fork;
}

OptionalBlock BlockTable::FinalBlock(size_t group, uint64_t number) const {
  const GroupLayout& layout = layout_->groups[group];
  if (number >= tokens_ / kBlockTokens || number < groups_[group].first_block) return std::nullopt;
  const Forms& forms = groups_[group].forms[number];
  if (layout.append) return forms.sealed;
  const bool stays_open = layout.open_is_sealed || number < layout.sink_blocks;
  return stays_open ? forms.open : forms.sealed;
}

void BlockTable::AdoptPrefix(uint64_t tokens,
                             const std::vector<std::vector<OptionalBlock>>& blocks) {
  KVANT_CHECK(tokens_ == 0 && prepared_tokens_ == 0 && tokens % kBlockTokens == 0);
  KVANT_CHECK(blocks.size() == groups_.size());
  const uint64_t count = tokens / kBlockTokens;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const GroupLayout& layout = layout_->groups[g];
    Group& group = groups_[g];
    KVANT_CHECK(!layout.seals() || layout.recent_blocks == 0);
    group.first_block = std::min(FirstVisibleBlock(layout, tokens), count);
    group.forms.resize(count);
    group.pointers.resize(count);
    for (uint64_t number = group.first_block; number < count; ++number) {
      KVANT_CHECK(number < blocks[g].size() && blocks[g][number].has_value());
      const BlockId block = *blocks[g][number];
      pool_->AddReference(block);
      const bool open = !layout.append && (layout.open_is_sealed || number < layout.sink_blocks);
      KVANT_CHECK(block.size_class == (open ? group.open_class : group.sealed_class));
      (open ? group.forms[number].open : group.forms[number].sealed) = block;
      UpdatePointers(group, g, number);
    }
  }
  tokens_ = tokens;
}

uint64_t BlockTable::held_bytes() const {
  uint64_t bytes = 0;
  VisitHeld([&](BlockId block) { bytes += pool_->block_bytes(block.size_class); });
  return bytes;
}

std::vector<BlockId> BlockTable::HeldBlocks() const {
  std::vector<BlockId> held;
  VisitHeld([&](BlockId block) { held.push_back(block); });
  return held;
}

void BlockTable::Clear() {
  VisitHeld([this](BlockId block) { pool_->Release(block); });
  for (Group& group : groups_) {
    group.forms.clear();
    group.pointers.clear();
    group.first_block = 0;
  }
  prepared_.clear();
  prepared_tokens_ = 0;
  tokens_ = 0;
}

std::vector<BlockTable::Need> BlockTable::NeedsFor(uint64_t num_new_tokens) const {
  std::vector<Need> needs;
  const uint64_t partial = tokens_ / kBlockTokens;
  const uint64_t end = DivideRoundUp(CheckedAdd(tokens_, num_new_tokens, "tokens"), kBlockTokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    const bool append = layout_->groups[g].append;
    const bool has_partial = tokens_ % kBlockTokens != 0;
    if (has_partial && IsShared(g, partial)) needs.push_back({g, partial, append, true});
    for (uint64_t number = partial + (has_partial ? 1 : 0); number < end; ++number) {
      needs.push_back({g, number, append, false});
    }
    const auto [seal_begin, seal_end] = SealRange(g, num_new_tokens);
    for (uint64_t number = seal_begin; number < seal_end; ++number) {
      needs.push_back({g, number, true, false});
    }
  }
  return needs;
}

SizeClass BlockTable::ClassOf(const Need& need) const {
  const Group& group = groups_[need.group];
  return need.sealed ? group.sealed_class : group.open_class;
}

bool BlockTable::IsShared(size_t group, uint64_t number) const {
  const Forms& forms = groups_[group].forms[number];
  const OptionalBlock& written = layout_->groups[group].append ? forms.sealed : forms.open;
  KVANT_CHECK(written.has_value());
  return pool_->references(*written) > 1;
}

std::pair<uint64_t, uint64_t> BlockTable::SealRange(size_t group, uint64_t num_new_tokens) const {
  const GroupLayout& layout = layout_->groups[group];
  if (!layout.seals()) return {0, 0};
  const uint64_t begin = std::max(
      {SealBoundary(layout, tokens_), uint64_t{layout.sink_blocks}, groups_[group].first_block});
  return {begin, std::max(begin, SealBoundary(layout, tokens_ + num_new_tokens))};
}

void BlockTable::Install(const Need& need, BlockId block) {
  Group& group = groups_[need.group];
  if (group.forms.size() <= need.number) {
    group.forms.resize(need.number + 1);
    group.pointers.resize(need.number + 1);
  }
  Forms& forms = group.forms[need.number];
  OptionalBlock& form = need.sealed ? forms.sealed : forms.open;
  if (need.copy) {
    std::memcpy(pool_->Data(block), pool_->Data(*form), pool_->block_bytes(block.size_class));
    pool_->Release(*form);
  }
  form = block;
  UpdatePointers(group, need.group, need.number);
}

void BlockTable::ReleaseForm(OptionalBlock* form) {
  if (form->has_value()) pool_->Release(**form);
  form->reset();
}

void BlockTable::UpdatePointers(Group& group, size_t index, uint64_t number) {
  const Forms& forms = group.forms[number];
  BlockPointers& pointers = group.pointers[number];
  pointers.open = forms.open ? pool_->Data(*forms.open) : nullptr;
  pointers.sealed = forms.sealed ? pool_->Data(*forms.sealed) : nullptr;
  if (layout_->groups[index].open_is_sealed && !layout_->groups[index].append) {
    pointers.sealed = pointers.open;
  }
}

void BlockTable::DropBlocksBelow(size_t group_index, uint64_t number) {
  Group& group = groups_[group_index];
  for (; group.first_block < std::min<uint64_t>(number, group.forms.size()); ++group.first_block) {
    Forms& forms = group.forms[group.first_block];
    ReleaseForm(&forms.open);
    ReleaseForm(&forms.sealed);
    UpdatePointers(group, group_index, group.first_block);
  }
}

template <typename Visitor>
void BlockTable::VisitHeld(const Visitor& visit) const {
  for (const Group& group : groups_) {
    for (uint64_t number = group.first_block; number < group.forms.size(); ++number) {
      const Forms& forms = group.forms[number];
      if (forms.open) visit(*forms.open);
      if (forms.sealed) visit(*forms.sealed);
    }
  }
}

}  // namespace kvant
