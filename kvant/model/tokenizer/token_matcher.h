// Finds tokens that are written out in a text.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class TokenMatcher {
 public:
  struct Match {
    TokenId token = 0;
    size_t bytes = 0;
  };

  // Texts are not empty; of equal ones the first counts.
  explicit TokenMatcher(std::vector<std::pair<std::string, TokenId>> tokens);

  // The longest token whose text stands at `position`. Time: the length of the match times the
  // logarithm of the number of tokens.
  std::optional<Match> At(std::string_view text, size_t position) const;

  // Calls ordinary(view) for each stretch without a token, which is never empty, and token(id) for
  // each token, in order; tokens are found leftmost first.
  template <typename Ordinary, typename Token>
  void Split(std::string_view text, const Ordinary& ordinary, const Token& token) const {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const std::optional<Match> match = At(text, at);
      if (!match) {
        ++at;
        continue;
      }
      if (at > begin) ordinary(text.substr(begin, at - begin));
      token(match->token);
      at += match->bytes;
      begin = at;
    }
    if (begin < text.size()) ordinary(text.substr(begin));
  }

 private:
  std::vector<std::pair<std::string, TokenId>> tokens_;  // sorted by text
  std::array<size_t, 257> first_byte_{};                 // where tokens with that byte begin
};

}  // namespace kvant
