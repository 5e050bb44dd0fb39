// The expressions of a template: operators by their precedence, values, filters and tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kvant/model/chat_template/syntax.h"
#include "kvant/model/chat_template/token_cursor.h"

namespace kvant::jinja {

// Each method reads from the cursor's place and leaves it behind what it has read; a mistake
// throws Error{kInvalidInput} with its line.
class ExpressionParser : protected TokenCursor {
 protected:
  using TokenCursor::TokenCursor;

  // One expression, or several with commas between: a tuple. An `if` after it belongs to it only
  // `with_conditional`.
  ExpressionPtr ParseTuple(bool with_conditional);
  ExpressionPtr ParseExpression();
  // Filters, tests and calls after a value.
  ExpressionPtr ParseFilters(ExpressionPtr result);
  // One filter, whose '|' has been read.
  ExpressionPtr ParseFilter(ExpressionPtr input);

  // `below`: the depth of the deepest child.
  template <typename Node>
  ExpressionPtr Make(size_t line, size_t below, Node node) const {
    CheckDepth(below + 1);
    auto expression = std::make_unique<Expression>();
    expression->line = line;
    expression->depth = below + 1;
    expression->node = std::move(node);
    return expression;
  }

 private:
  bool AtTupleEnd() const;
  ExpressionPtr ParseOrNested();
  ExpressionPtr ParseOr();
  ExpressionPtr ParseLogical(bool is_and);
  ExpressionPtr ParseNot();
  bool TakeComparison(Comparison::Kind& kind);
  ExpressionPtr ParseComparison();
  ExpressionPtr MakeBinary(size_t line, Binary::Kind kind, ExpressionPtr left,
                           ExpressionPtr right) const;
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseUnary(bool with_filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParseName();
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseList();
  ExpressionPtr ParseDict();
  ExpressionPtr ParsePostfix(ExpressionPtr result);
  ExpressionPtr ParseAttribute(ExpressionPtr object);
  ExpressionPtr ParseSubscript(ExpressionPtr object);
  CallArguments ParseArguments();
  ExpressionPtr ParseCall(ExpressionPtr callee);
  bool AtTestArgument() const;
  ExpressionPtr ParseTest(ExpressionPtr input);
};

}  // namespace kvant::jinja
