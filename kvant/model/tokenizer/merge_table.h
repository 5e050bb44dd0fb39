// What each pair of tokens merges to: a hash table that costs one cache line per look-up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvant/model/tokenizer/symbol_merger.h"

namespace kvant {

class MergeTable {
 public:
  explicit MergeTable(size_t num_merges);

  // Keeps the first merge of a pair. REQUIRES: at most num_merges calls.
  void Add(TokenId left, TokenId right, PairMerge merge);

  PairMerge Find(TokenId left, TokenId right) const {
    const uint64_t key = KeyOf(left, right);
    for (size_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      const Entry& entry = entries_[slot];
      if (entry.key == key) return entry.merge;
      if (entry.key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // the pair (-1, -1), which no merge has

  struct Entry {
    uint64_t key = kEmpty;
    PairMerge merge;
  };

  static uint64_t KeyOf(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t SlotOf(uint64_t key) const {
    key = (key ^ seed_) * 0x9E3779B97F4A7C15ULL;
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93ULL;
    return static_cast<size_t>(key >> 32) & mask_;
  }

  std::vector<Entry> entries_;
  size_t mask_;
  uint64_t seed_;  // differs from run to run, so that no file can make all its pairs collide
};

}  // namespace kvant
