#include "kvant/model/tokenizer/token_matcher.h"

#include <algorithm>

namespace kvant {

TokenMatcher::TokenMatcher(std::vector<std::pair<std::string, TokenId>> tokens)
    : tokens_(std::move(tokens)) {
  const auto by_text = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto same_text = [](const auto& a, const auto& b) { return a.first == b.first; };
  std::stable_sort(tokens_.begin(), tokens_.end(), by_text);
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
  for (const auto& token : tokens_) ++first_byte_[static_cast<uint8_t>(token.first[0]) + size_t{1}];
  for (size_t byte = 1; byte < first_byte_.size(); ++byte) {
    first_byte_[byte] += first_byte_[byte - 1];
  }
}

std::optional<TokenMatcher::Match> TokenMatcher::At(std::string_view text, size_t position) const {
  const auto first = static_cast<uint8_t>(text[position]);
  // The tokens that begin with the `depth` bytes read so far.
  auto low = tokens_.begin() + static_cast<std::ptrdiff_t>(first_byte_[first]);
  auto high = tokens_.begin() + static_cast<std::ptrdiff_t>(first_byte_[first + size_t{1}]);
  std::optional<Match> longest;
  for (size_t depth = 1; low != high; ++depth) {
    if (low->first.size() == depth) {
      longest = Match{low->second, depth};
      ++low;
    }
    if (position + depth == text.size()) break;
    const auto next = static_cast<uint8_t>(text[position + depth]);
    const auto byte_of = [depth](const auto& token) {
      return static_cast<uint8_t>(token.first[depth]);
    };
    low = std::partition_point(low, high, [&](const auto& t) { return byte_of(t) < next; });
    high = std::partition_point(low, high, [&](const auto& t) { return byte_of(t) == next; });
  }
  return longest;
}

}  // namespace kvant
