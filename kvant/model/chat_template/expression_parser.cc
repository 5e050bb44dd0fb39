#include "kvant/model/chat_template/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvant::jinja {
namespace {

size_t DepthOf(const ExpressionPtr& child) { return child == nullptr ? 0 : child->depth; }

size_t DepthOf(const CallArguments& arguments) {
  size_t depth = 0;
  for (const auto& child : arguments.positional) depth = std::max(depth, child->depth);
  for (const auto& named : arguments.named) depth = std::max(depth, named.second->depth);
  return depth;
}

}  // namespace

bool ExpressionParser::AtTupleEnd() const {
  return Current().kind == TokenKind::kOutputEnd || Current().kind == TokenKind::kBlockEnd ||
         Current().kind == TokenKind::kEnd || IsOperator(")") || IsName("recursive");
}

ExpressionPtr ExpressionParser::ParseTuple(bool with_conditional) {
  const size_t line = Current().line;
  const auto one = [&] { return with_conditional ? ParseExpression() : ParseOrNested(); };
  if (AtTupleEnd()) FailHere("an expression is missing");
  ExpressionPtr first = one();
  if (!IsOperator(",")) return first;
  ListLiteral tuple;
  tuple.tuple = true;
  size_t depth = first->depth;
  tuple.items.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (AtTupleEnd()) break;
    tuple.items.push_back(one());
    depth = std::max(depth, tuple.items.back()->depth);
  }
  return Make(line, depth, std::move(tuple));
}

ExpressionPtr ExpressionParser::ParseOrNested() {
  const Level level(this);
  return ParseOr();
}

ExpressionPtr ExpressionParser::ParseExpression() {
  const Level level(this);
  ExpressionPtr result = ParseOr();
  while (IsName("if")) {
    const size_t line = Take().line;
    Conditional node;
    node.then = std::move(result);
    node.condition = ParseOr();
    if (SkipName("else")) node.otherwise = ParseExpression();
    const size_t depth =
        std::max({DepthOf(node.then), DepthOf(node.condition), DepthOf(node.otherwise)});
    result = Make(line, depth, std::move(node));
  }
  return result;
}

ExpressionPtr ExpressionParser::ParseOr() { return ParseLogical(false); }

ExpressionPtr ExpressionParser::ParseLogical(bool is_and) {
  ExpressionPtr left = is_and ? ParseNot() : ParseLogical(true);
  while (IsName(is_and ? "and" : "or")) {
    const size_t line = Take().line;
    Logical node;
    node.is_and = is_and;
    node.left = std::move(left);
    node.right = is_and ? ParseNot() : ParseLogical(true);
    const size_t depth = std::max(node.left->depth, node.right->depth);
    left = Make(line, depth, std::move(node));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseComparison();
  const Level level(this);
  const size_t line = Take().line;
  Unary node{Unary::Kind::kNot, ParseNot()};
  const size_t depth = node.operand->depth;
  return Make(line, depth, std::move(node));
}

// True if a comparison is next; passes it.
bool ExpressionParser::TakeComparison(Comparison::Kind& kind) {
  struct Entry {
    std::string_view text;
    Comparison::Kind kind;
  };
  constexpr auto kOperators = std::to_array<Entry>({{"==", Comparison::Kind::kEqual},
                                                    {"!=", Comparison::Kind::kUnequal},
                                                    {"<", Comparison::Kind::kLess},
                                                    {"<=", Comparison::Kind::kLessOrEqual},
                                                    {">", Comparison::Kind::kGreater},
                                                    {">=", Comparison::Kind::kGreaterOrEqual}});
  for (const Entry& entry : kOperators) {
    if (!SkipOperator(entry.text)) continue;
    kind = entry.kind;
    return true;
  }
  const bool negated = IsName("not") && Ahead().kind == TokenKind::kName && Ahead().text == "in";
  if (negated) Take();
  kind = negated ? Comparison::Kind::kNotIn : Comparison::Kind::kIn;
  return SkipName("in");
}

ExpressionPtr ExpressionParser::ParseComparison() {
  const size_t line = Current().line;
  ExpressionPtr first = ParseSum();
  Comparison node;
  size_t depth = first->depth;
  Comparison::Kind kind{};
  while (TakeComparison(kind)) {
    node.rest.emplace_back(kind, ParseSum());
    depth = std::max(depth, node.rest.back().second->depth);
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return Make(line, depth, std::move(node));
}

ExpressionPtr ExpressionParser::MakeBinary(size_t line, Binary::Kind kind, ExpressionPtr left,
                                           ExpressionPtr right) const {
  const size_t depth = std::max(left->depth, right->depth);
  return Make(line, depth, Binary{kind, std::move(left), std::move(right)});
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr left = ParseConcatenation();
  while (IsOperator("+") || IsOperator("-")) {
    const Token& sign = Take();
    const auto kind = sign.text == "+" ? Binary::Kind::kAdd : Binary::Kind::kSubtract;
    left = MakeBinary(sign.line, kind, std::move(left), ParseConcatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  const size_t line = Current().line;
  ExpressionPtr first = ParseProduct();
  if (!IsOperator("~")) return first;
  Concatenation node;
  size_t depth = first->depth;
  node.parts.push_back(std::move(first));
  while (SkipOperator("~")) {
    node.parts.push_back(ParseProduct());
    depth = std::max(depth, node.parts.back()->depth);
  }
  return Make(line, depth, std::move(node));
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr left = ParsePower();
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    const Token& sign = Take();
    const auto kind = sign.text == "*"    ? Binary::Kind::kMultiply
                      : sign.text == "/"  ? Binary::Kind::kDivide
                      : sign.text == "//" ? Binary::Kind::kFloorDivide
                                          : Binary::Kind::kModulo;
    left = MakeBinary(sign.line, kind, std::move(left), ParsePower());
  }
  return left;
}

ExpressionPtr ExpressionParser::ParsePower() {
  ExpressionPtr left = ParseUnary(true);
  while (IsOperator("**")) {
    const size_t line = Take().line;
    left = MakeBinary(line, Binary::Kind::kPower, std::move(left), ParseUnary(true));
  }
  return left;
}

ExpressionPtr ExpressionParser::ParseUnary(bool with_filters) {
  const Level level(this);
  ExpressionPtr result;
  if (IsOperator("-") || IsOperator("+")) {
    const Token& sign = Take();
    Unary node{sign.text == "-" ? Unary::Kind::kMinus : Unary::Kind::kPlus, ParseUnary(false)};
    const size_t depth = node.operand->depth;
    result = Make(sign.line, depth, std::move(node));
  } else {
    result = ParsePrimary();
  }
  result = ParsePostfix(std::move(result));
  return with_filters ? ParseFilters(std::move(result)) : std::move(result);
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  const Token& token = Current();
  const size_t line = token.line;
  switch (token.kind) {
    case TokenKind::kInteger:
      Take();
      return Make(line, 0, Literal{Value(token.integer)});
    case TokenKind::kFloat:
      Take();
      return Make(line, 0, Literal{Value(token.number)});
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text = Take().text;
      while (Current().kind == TokenKind::kString) text += Take().text;
      return Make(line, 0, Literal{Value(std::make_shared<const std::string>(std::move(text)))});
    }
    case TokenKind::kOperator:
      if (token.text == "(") return ParseParentheses();
      if (token.text == "[") return ParseList();
      if (token.text == "{") return ParseDict();
      [[fallthrough]];
    default:
      FailHere("an expression is missing");
  }
}

ExpressionPtr ExpressionParser::ParseName() {
  const size_t line = Current().line;
  std::string name = Take().text;
  if (name == "true" || name == "True") return Make(line, 0, Literal{Value(true)});
  if (name == "false" || name == "False") return Make(line, 0, Literal{Value(false)});
  if (name == "none" || name == "None") return Make(line, 0, Literal{Value(None{})});
  return Make(line, 0, Name{std::move(name)});
}

ExpressionPtr ExpressionParser::ParseParentheses() {
  const size_t line = Take().line;
  if (SkipOperator(")")) {
    ListLiteral empty;
    empty.tuple = true;
    return Make(line, 0, std::move(empty));
  }
  ExpressionPtr inside = ParseTuple(true);
  ExpectOperator(")");
  return inside;
}

ExpressionPtr ExpressionParser::ParseList() {
  const size_t line = Take().line;
  ListLiteral node;
  size_t depth = 0;
  while (!IsOperator("]")) {
    if (!node.items.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    node.items.push_back(ParseExpression());
    depth = std::max(depth, node.items.back()->depth);
  }
  Take();
  return Make(line, depth, std::move(node));
}

ExpressionPtr ExpressionParser::ParseDict() {
  const size_t line = Take().line;
  DictLiteral node;
  size_t depth = 0;
  while (!IsOperator("}")) {
    if (!node.items.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    ExpressionPtr key = ParseExpression();
    ExpectOperator(":");
    ExpressionPtr value = ParseExpression();
    depth = std::max({depth, key->depth, value->depth});
    node.items.emplace_back(std::move(key), std::move(value));
  }
  Take();
  return Make(line, depth, std::move(node));
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr result) {
  while (true) {
    if (IsOperator(".")) {
      result = ParseAttribute(std::move(result));
    } else if (IsOperator("[")) {
      result = ParseSubscript(std::move(result));
    } else if (IsOperator("(")) {
      result = ParseCall(std::move(result));
    } else {
      return result;
    }
  }
}

ExpressionPtr ExpressionParser::ParseAttribute(ExpressionPtr object) {
  const size_t line = Take().line;
  const size_t depth = object->depth;
  if (Current().kind == TokenKind::kInteger) {
    const int64_t index = Take().integer;
    ExpressionPtr key = Make(line, 0, Literal{Value(index)});
    return Make(line, depth, Subscript{std::move(object), std::move(key)});
  }
  return Make(line, depth, Attribute{std::move(object), ExpectName()});
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const size_t line = Take().line;
  ExpressionPtr start;
  if (!IsOperator(":")) start = ParseExpression();
  if (!IsOperator(":")) {
    ExpectOperator("]");
    const size_t depth = std::max(object->depth, start->depth);
    return Make(line, depth, Subscript{std::move(object), std::move(start)});
  }
  Slice node;
  Take();
  if (!IsOperator(":") && !IsOperator("]")) node.stop = ParseExpression();
  if (SkipOperator(":") && !IsOperator("]")) node.step = ParseExpression();
  ExpectOperator("]");
  const size_t depth =
      std::max({object->depth, DepthOf(start), DepthOf(node.stop), DepthOf(node.step)});
  node.object = std::move(object);
  node.start = std::move(start);
  return Make(line, depth, std::move(node));
}

CallArguments ExpressionParser::ParseArguments() {
  CallArguments arguments;
  ExpectOperator("(");
  bool first = true;
  while (!IsOperator(")")) {
    if (!first) ExpectOperator(",");
    first = false;
    if (IsOperator(")")) break;
    if (IsOperator("*") || IsOperator("**")) FailHere("unpacked arguments are not supported");
    const bool named = Current().kind == TokenKind::kName && Ahead().kind == TokenKind::kOperator &&
                       Ahead().text == "=";
    if (named) {
      std::string name = Take().text;
      Take();
      arguments.named.emplace_back(std::move(name), ParseExpression());
    } else {
      if (!arguments.named.empty()) FailHere("an argument without a name follows a named one");
      arguments.positional.push_back(ParseExpression());
    }
  }
  Take();
  return arguments;
}

ExpressionPtr ExpressionParser::ParseCall(ExpressionPtr callee) {
  const size_t line = Current().line;
  CallArguments arguments = ParseArguments();
  const size_t depth = std::max(callee->depth, DepthOf(arguments));
  return Make(line, depth, Call{std::move(callee), std::move(arguments)});
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr result) {
  while (true) {
    if (SkipOperator("|")) {
      result = ParseFilter(std::move(result));
    } else if (SkipName("is")) {
      result = ParseTest(std::move(result));
    } else if (IsOperator("(")) {
      result = ParseCall(std::move(result));
    } else {
      return result;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr input) {
  const size_t line = Current().line;
  FilterCall node;
  node.name = ExpectName();
  if (IsOperator("(")) node.arguments = ParseArguments();
  const size_t depth = std::max(input->depth, DepthOf(node.arguments));
  node.input = std::move(input);
  return Make(line, depth, std::move(node));
}

bool ExpressionParser::AtTestArgument() const {
  switch (Current().kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName: {
      // Jinja would take `if` for an argument too, and then fail.
      const std::string& name = Current().text;
      return name != "else" && name != "or" && name != "and" && name != "is" && name != "if" &&
             name != "in" && name != "not";
    }
    default:
      return IsOperator("[") || IsOperator("{");
  }
}

ExpressionPtr ExpressionParser::ParseTest(ExpressionPtr input) {
  const size_t line = Current().line;
  const bool negated = SkipName("not");
  TestCall node;
  node.name = ExpectName();
  if (IsOperator("(")) {
    node.arguments = ParseArguments();
  } else if (AtTestArgument()) {
    node.arguments.positional.push_back(ParsePostfix(ParsePrimary()));
  }
  const size_t depth = std::max(input->depth, DepthOf(node.arguments));
  node.input = std::move(input);
  ExpressionPtr test = Make(line, depth, std::move(node));
  if (!negated) return test;
  return Make(line, depth + 1, Unary{Unary::Kind::kNot, std::move(test)});
}

}  // namespace kvant::jinja
