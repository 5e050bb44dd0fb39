// Merging neighbouring symbols, best pair first: the loop that byte-pair encoding and
// SentencePiece's BPE share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

namespace kvant {

struct Merge {
  double priority;  // higher goes first; of equals the leftmost
  int32_t token;    // what the pair becomes
};

// Merges `symbols` (token ids, in order) until no neighbouring pair has a merge. O(n log n).
inline std::vector<int32_t> MergeSymbols(
    const std::vector<int32_t>& symbols,
    const std::function<std::optional<Merge>(int32_t left, int32_t right)>& find) {
  struct Node {
    int32_t token;
    size_t previous;
    size_t next;
  };
  struct Candidate {
    double priority;
    size_t left;
    int32_t left_token, right_token;  // to see whether the pair is still there
    int32_t token;
    bool operator<(const Candidate& other) const {
      return priority != other.priority ? priority < other.priority : left > other.left;
    }
  };
  constexpr size_t kNone = SIZE_MAX;
  std::vector<Node> nodes(symbols.size());
  std::priority_queue<Candidate> queue;
  const auto consider = [&](size_t left) {
    if (left == kNone || nodes[left].next == kNone) return;
    const int32_t a = nodes[left].token;
    const int32_t b = nodes[nodes[left].next].token;
    if (const std::optional<Merge> merge = find(a, b)) {
      queue.push({merge->priority, left, a, b, merge->token});
    }
  };
  for (size_t i = 0; i < symbols.size(); ++i) {
    nodes[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == symbols.size() ? kNone : i + 1};
  }
  for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(i);
  constexpr int32_t kDead = -1;
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& left = nodes[best.left];
    if (left.token != best.left_token || left.next == kNone ||
        nodes[left.next].token != best.right_token) {
      continue;
    }
    Node& right = nodes[left.next];
    left.token = best.token;
    right.token = kDead;
    left.next = right.next;
    if (left.next != kNone) nodes[left.next].previous = best.left;
    consider(best.left);
    consider(left.previous);
  }
  std::vector<int32_t> merged;
  for (size_t i = nodes.empty() ? kNone : 0; i != kNone; i = nodes[i].next) {
    merged.push_back(nodes[i].token);
  }
  return merged;
}

}  // namespace kvant
