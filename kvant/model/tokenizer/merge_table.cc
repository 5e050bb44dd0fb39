#include "kvant/model/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <random>

namespace kvant {

MergeTable::MergeTable(size_t num_merges)
    : entries_(std::bit_ceil(std::max<size_t>(2 * num_merges, 2))), mask_(entries_.size() - 1) {
  std::random_device device;
  seed_ = uint64_t{device()} << 32 | device();
}

void MergeTable::Add(TokenId left, TokenId right, PairMerge merge) {
  const uint64_t key = KeyOf(left, right);
  size_t slot = SlotOf(key);
  while (entries_[slot].key != kEmpty) {
    if (entries_[slot].key == key) return;
    slot = (slot + 1) & mask_;
  }
  entries_[slot] = {key, merge};
}

}  // namespace kvant
