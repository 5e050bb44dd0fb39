#include <algorithm>

#include "kvant/cache/block_table.h"
#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/format/kv_format.h"

namespace kvant {
namespace {

constexpr const char* kWhat = "KV cache bytes of one sequence";

uint64_t Distance(uint64_t begin, uint64_t end) { return end > begin ? end - begin : 0; }

uint64_t CostOf(uint64_t block_bytes, ByteCount count) {
  if (block_bytes == 0) return 0;
  return count == ByteCount::kBlocks ? block_bytes : BlockPool::CommittedBound(block_bytes);
}

uint64_t Total(uint64_t blocks, uint64_t cost) { return CheckedMul(blocks, cost, kWhat); }

// Held by one group during a step from `begin` to `end` tokens, after Prepare.
uint64_t StepBytes(const GroupLayout& group, uint64_t begin, uint64_t end, ByteCount count) {
  const uint64_t first = FirstVisibleBlock(group, begin);
  const uint64_t last = DivideRoundUp(end, kBlockTokens);
  if (group.append) return Total(Distance(first, last), CostOf(group.sealed_block_bytes, count));
  const uint64_t open_cost = CostOf(group.open_block_bytes, count);
  if (group.open_is_sealed) return Total(Distance(first, last), open_cost);

  const uint64_t sinks = group.sink_blocks;
  const uint64_t open_begin = Distance(group.recent_blocks, begin / kBlockTokens);
  const uint64_t sealed_end = Distance(group.recent_blocks, end / kBlockTokens);
  const uint64_t open_blocks = Distance(first, std::min({sinks, open_begin, last})) +
                               Distance(std::max(first, open_begin), last);
  const uint64_t sealed_blocks = Distance(std::max(first, sinks), sealed_end);
  return CheckedAdd(Total(open_blocks, open_cost),
                    Total(sealed_blocks, CostOf(group.sealed_block_bytes, count)), kWhat);
}

// Past this many tokens the bytes never fall when a block is added: only sink blocks that leave a
// window, dearer than the sealed ones that follow them, make a shorter sequence hold more.
uint64_t TokensUntilRegular(const GroupLayout& group, uint64_t chunk_tokens) {
  if (group.window_tokens == 0 || group.sink_blocks == 0 || !group.seals()) return 0;
  return group.window_tokens + uint64_t{group.sink_blocks} * kBlockTokens + chunk_tokens +
         kBlockTokens;
}

}  // namespace

uint64_t PeakBytes(const CacheLayout& layout, uint64_t tokens, uint64_t chunk_tokens,
                   ByteCount count) {
  KVANT_CHECK(chunk_tokens > 0);
  CheckedAdd(tokens, kBlockTokens, "tokens of one sequence");  // so that rounding up is safe
  chunk_tokens = std::min(chunk_tokens, tokens);
  uint64_t irregular = 0;
  for (const GroupLayout& group : layout.groups) {
    irregular = std::max(irregular, TokensUntilRegular(group, chunk_tokens));
  }
  irregular = std::min(irregular, tokens);
  uint64_t peak = 0;
  const auto consider = [&](uint64_t end) {
    uint64_t bytes = 0;
    for (const GroupLayout& group : layout.groups) {
      // The longest step to the same end holds the most: it starts with the most blocks open.
      bytes = CheckedAdd(bytes, StepBytes(group, Distance(chunk_tokens, end), end, count), kWhat);
    }
    peak = std::max(peak, bytes);
  };
  for (uint64_t end = 1; end <= irregular; ++end) consider(end);
  for (uint64_t end = Distance(kBlockTokens, tokens) + 1; end <= tokens; ++end) consider(end);
  return peak;
}

uint64_t StepHeadroomBytes(const CacheLayout& layout, uint64_t chunk_tokens) {
  KVANT_CHECK(chunk_tokens > 0);
  const uint64_t blocks = DivideRoundUp(chunk_tokens, kBlockTokens);
  uint64_t bytes = 0;
  for (const GroupLayout& group : layout.groups) {
    uint64_t cost = 0;
    if (!group.append) cost += CostOf(group.open_block_bytes, ByteCount::kCommitted);
    // Append blocks are the chunk's own; others are about to leave a window, sinks as open ones.
    const bool leaves = group.window_tokens != 0 && group.seals();
    if (group.append || leaves) {
      const uint64_t bytes_each = group.sink_blocks > 0 && !group.append
                                      ? std::max(group.open_block_bytes, group.sealed_block_bytes)
                                      : group.sealed_block_bytes;
      cost += CostOf(bytes_each, ByteCount::kCommitted);
    }
    bytes = CheckedAdd(bytes, Total(blocks, cost), kWhat);
  }
  return bytes;
}

}  // namespace kvant
