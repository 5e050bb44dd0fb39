// Merging neighbouring symbols, best pair first: the loop that byte-level BPE and SentencePiece's
// BPE share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

inline constexpr TokenId kNoToken = -1;

// What a pair of neighbours becomes. The lower rank goes first, of equals the leftmost.
struct PairMerge {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  uint32_t rank = kNever;
  TokenId token = kNoToken;
};

// A stretch of the text.
struct Symbol {
  uint32_t begin = 0;
  uint32_t bytes = 0;  // 0: was merged into the symbol before it
  TokenId token = kNoToken;
  uint32_t previous = 0;
  uint32_t next = 0;
};

// Keeps its buffers between words; one per thread and text.
class SymbolMerger {
 public:
  void Clear() { symbols_.clear(); }

  // The next symbol of the word, right behind the last one.
  void Add(uint32_t begin, uint32_t bytes, TokenId token) {
    const auto index = static_cast<uint32_t>(symbols_.size());
    symbols_.push_back({begin, bytes, token, index - 1, index + 1});
  }

  // Merges until no pair of neighbours has a merge. `find(left, right)` gives a PairMerge for two
  // neighbouring symbols, and the same one for the same two tokens. Time O(n log n).
  template <typename Find>
  void Merge(const Find& find) {
    queue_.clear();
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) {
      if (const Candidate candidate = Consider(i, find); candidate.rank != PairMerge::kNever) {
        queue_.push_back(candidate);
      }
    }
    std::make_heap(queue_.begin(), queue_.end(), Later);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), Later);
      const Candidate best = queue_.back();
      queue_.pop_back();
      if (!StillStands(best)) continue;
      Apply(best);
      Push(Consider(best.left, find));
      if (best.left != 0) Push(Consider(symbols_[best.left].previous, find));
    }
  }

  // Calls take(symbol) for what is left, in order.
  template <typename Take>
  void ForEach(const Take& take) const {
    for (size_t i = 0; i < symbols_.size(); i = symbols_[i].next) take(symbols_[i]);
  }

 private:
  struct Candidate {
    uint32_t rank = PairMerge::kNever;
    uint32_t left = 0;
    uint32_t bytes = 0;  // of both together: differs once either has changed
    TokenId token = kNoToken;
  };

  static bool Later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  template <typename Find>
  Candidate Consider(uint32_t left_index, const Find& find) const {
    const Symbol& left = symbols_[left_index];
    if (left.next >= symbols_.size()) return {};
    const Symbol& right = symbols_[left.next];
    const PairMerge merge = find(left, right);
    return {merge.rank, left_index, left.bytes + right.bytes, merge.token};
  }

  bool StillStands(const Candidate& candidate) const {
    const Symbol& left = symbols_[candidate.left];
    if (left.bytes == 0 || left.next >= symbols_.size()) return false;
    return left.bytes + symbols_[left.next].bytes == candidate.bytes;
  }

  void Apply(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    Symbol& right = symbols_[left.next];
    left.bytes = candidate.bytes;
    left.token = candidate.token;
    left.next = right.next;
    right.bytes = 0;
    if (left.next < symbols_.size()) symbols_[left.next].previous = candidate.left;
  }

  void Push(const Candidate& candidate) {
    if (candidate.rank == PairMerge::kNever) return;
    queue_.push_back(candidate);
    std::push_heap(queue_.begin(), queue_.end(), Later);
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;  // a heap, the best on top
};

}  // namespace kvant
