// The syntax tree of a template.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
  bool tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slice {  // null where a bound is left out
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
struct TestCall {
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
struct Unary {
  enum class Kind { kNot, kMinus, kPlus };
  Kind kind = Kind::kNot;
  ExpressionPtr operand;
};
struct Binary {
  enum class Kind { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
  Kind kind = Kind::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Logical {
  bool is_and = true;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
struct Comparison {
  enum class Kind { kEqual, kUnequal, kLess, kLessOrEqual, kGreater, kGreaterOrEqual, kIn, kNotIn };
  ExpressionPtr first;
  std::vector<std::pair<Kind, ExpressionPtr>> rest;
};
struct Conditional {  // `otherwise` may be null
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;
};
// What the body of a filter block or of a set block gave: the input of its filters.
struct BodyText {};

struct Expression {
  size_t line = 0;
  size_t depth = 1;  // levels of the tree below and with this one
  std::variant<Literal, Name, ListLiteral, DictLiteral, Attribute, Subscript, Slice, Call,
               FilterCall, TestCall, Unary, Binary, Logical, Concatenation, Comparison, Conditional,
               BodyText>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

// What an assignment or a loop binds: a name, the attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;      // empty: the name itself
  std::vector<Target> items;  // not empty: the value is taken apart
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // may be null
};

struct TextStatement {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};
struct If {
  std::vector<Branch> branches;
};
struct For {
  Target target;
  ExpressionPtr items;
  ExpressionPtr condition;  // may be null
  Body body;
  Body otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr value;  // filters over BodyText
  Body body;
};
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};
struct CallBlock {
  std::shared_ptr<const MacroDefinition> caller;
  ExpressionPtr call;
};
struct FilterBlock {
  ExpressionPtr value;  // filters over BodyText
  Body body;
};
// A block with names of its own: with, and the generation blocks of training templates.
struct Scoped {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  size_t line = 0;
  std::variant<TextStatement, Output, If, For, Set, SetBlock,
               std::shared_ptr<const MacroDefinition>, CallBlock, FilterBlock, Scoped, Break,
               Continue>
      node;
};

}  // namespace kvant::jinja
