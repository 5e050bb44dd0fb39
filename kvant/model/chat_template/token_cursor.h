// A place in the tokens of a template, and how deep its syntax is nested there.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/budget.h"
#include "kvant/model/chat_template/lexer.h"

namespace kvant::jinja {

class TokenCursor {
 protected:
  TokenCursor(std::vector<Token> tokens, const ChatTemplateLimits& limits)
      : limits_(limits), tokens_(std::move(tokens)) {}

  const Token& Current() const { return tokens_[position_]; }
  const Token& Ahead() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }

  const Token& Take() {
    const Token& token = tokens_[position_];
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  [[noreturn]] void FailHere(std::string_view what) const {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("chat template, line {}: {}", Current().line, what));
  }

  bool IsOperator(std::string_view text) const {
    return Current().kind == TokenKind::kOperator && Current().text == text;
  }
  bool IsName(std::string_view text) const {
    return Current().kind == TokenKind::kName && Current().text == text;
  }
  bool SkipOperator(std::string_view text) {
    if (!IsOperator(text)) return false;
    Take();
    return true;
  }
  bool SkipName(std::string_view text) {
    if (!IsName(text)) return false;
    Take();
    return true;
  }
  void ExpectOperator(std::string_view text) {
    if (!SkipOperator(text)) FailHere(fmt::format("'{}' is missing", text));
  }
  std::string ExpectName() {
    if (Current().kind != TokenKind::kName) FailHere("a name is missing");
    return Take().text;
  }
  void ExpectBlockEnd() {
    if (Current().kind != TokenKind::kBlockEnd) FailHere("the tag goes on where it should end");
    Take();
  }

  // Throws where `depth` is over the limit.
  void CheckDepth(size_t depth) const {
    if (depth <= limits_.syntax_depth) return;
    FailHere(fmt::format("nested deeper than {} levels", limits_.syntax_depth));
  }

  // One level of nesting while it lives.
  class Level {
   public:
    explicit Level(TokenCursor* cursor) : cursor_(cursor) {
      cursor_->CheckDepth(cursor_->depth_ + 1);
      ++cursor_->depth_;
    }
    ~Level() { --cursor_->depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenCursor* cursor_;
  };

 private:
  const ChatTemplateLimits& limits_;
  const std::vector<Token> tokens_;
  size_t position_ = 0;
  size_t depth_ = 0;
};

}  // namespace kvant::jinja
