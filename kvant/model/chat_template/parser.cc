#include "kvant/model/chat_template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/lexer.h"

namespace kvant::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

// Counts one level of nesting while it lives.
class Level {
 public:
  explicit Level(size_t& depth) : depth_(depth) { ++depth_; }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  size_t& depth_;
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const ChatTemplateLimits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {}

  Body Run() { return ParseBody({}); }

 private:
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

  void CheckDepth() const {
    if (depth_ > limits_.syntax_depth) {
      FailHere(fmt::format("nested deeper than {} levels", limits_.syntax_depth));
    }
  }

  static size_t DepthOf(const ExpressionPtr& child) { return child == nullptr ? 0 : child->depth; }
  static size_t DepthOf(const CallArguments& arguments) {
    size_t depth = 0;
    for (const auto& child : arguments.positional) depth = std::max(depth, child->depth);
    for (const auto& named : arguments.named) depth = std::max(depth, named.second->depth);
    return depth;
  }

  // `below`: the depth of the deepest child.
  template <typename Node>
  ExpressionPtr Make(size_t line, size_t below, Node node) const {
    if (below + 1 > limits_.syntax_depth) {
      FailHere(fmt::format("nested deeper than {} levels", limits_.syntax_depth));
    }
    auto expression = std::make_unique<Expression>();
    expression->line = line;
    expression->depth = below + 1;
    expression->node = std::move(node);
    return expression;
  }

  // Statements up to a tag that begins with one of `ends`, of which the name is next then; or up
  // to the end of the source where `ends` is empty.
  Body ParseBody(Names ends) {
    const Level level(depth_);
    CheckDepth();
    Body body;
    while (true) {
      const Token& token = Current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) FailHere(fmt::format("'{}' is missing", *(ends.end() - 1)));
        return body;
      }
      Statement statement;
      statement.line = token.line;
      if (token.kind == TokenKind::kText) {
        statement.node = TextStatement{Take().text};
      } else if (token.kind == TokenKind::kOutputBegin) {
        Take();
        statement.node = Output{ParseTuple(true)};
        if (Current().kind != TokenKind::kOutputEnd) FailHere("'}}' is missing");
        Take();
      } else {
        Take();
        const bool ended = Current().kind == TokenKind::kName &&
                           std::find(ends.begin(), ends.end(), Current().text) != ends.end();
        if (ended) return body;
        ParseStatement(statement);
      }
      body.push_back(std::move(statement));
    }
  }

  // A body that only `end` closes; passes the closing tag.
  Body ParseClosedBody(std::string_view end) {
    Body body = ParseBody({end});
    Take();
    return body;
  }

  void ParseStatement(Statement& statement) {
    if (Current().kind != TokenKind::kName) FailHere("the tag has no name");
    const std::string name = Current().text;
    if (name == "if") return ParseIf(statement);
    if (name == "for") return ParseFor(statement);
    if (name == "set") return ParseSet(statement);
    if (name == "macro") return ParseMacro(statement);
    if (name == "call") return ParseCallBlock(statement);
    if (name == "filter") return ParseFilterBlock(statement);
    if (name == "with") return ParseWith(statement);
    if (name == "generation") return ParseGeneration(statement);
    if (name == "break" || name == "continue") return ParseJump(statement);
    for (const std::string_view other :
         {"include", "import", "from", "extends", "block", "autoescape", "do", "trans"}) {
      if (name != other) continue;
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("chat template, line {}: the tag '{}' is not supported",
                              Current().line, name));
    }
    FailHere("the tag is not known here");
  }

  void ParseIf(Statement& statement) {
    If node;
    bool more = true;
    while (more) {
      Branch branch;
      const bool conditional = Take().text != "else";
      if (conditional) branch.condition = ParseTuple(false);
      ExpectBlockEnd();
      branch.body = conditional ? ParseBody({"elif", "else", "endif"}) : ParseBody({"endif"});
      more = !IsName("endif");
      node.branches.push_back(std::move(branch));
    }
    Take();
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  void ParseFor(Statement& statement) {
    Take();
    For node;
    node.target = ParseTargets(false);
    if (!SkipName("in")) FailHere("'in' is missing");
    node.items = ParseTuple(false);
    if (SkipName("if")) node.condition = ParseExpression();
    if (IsName("recursive")) FailHere("recursive loops are not supported");
    ExpectBlockEnd();
    ++loops_;
    node.body = ParseBody({"else", "endfor"});
    --loops_;
    if (SkipName("else")) {
      ExpectBlockEnd();
      node.otherwise = ParseBody({"endfor"});
    }
    Take();
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  void ParseSet(Statement& statement) {
    Take();
    Target target = ParseTargets(true);
    if (SkipOperator("=")) {
      Set node{std::move(target), ParseTuple(true)};
      ExpectBlockEnd();
      statement.node = std::move(node);
      return;
    }
    SetBlock node;
    node.target = std::move(target);
    node.value = ParseFilters(Make(Current().line, 0, BodyText{}));
    ExpectBlockEnd();
    node.body = ParseClosedBody("endset");
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  std::vector<Parameter> ParseParameters() {
    std::vector<Parameter> parameters;
    ExpectOperator("(");
    while (!IsOperator(")")) {
      if (!parameters.empty()) ExpectOperator(",");
      if (IsOperator(")")) break;
      Parameter parameter;
      parameter.name = ExpectName();
      if (SkipOperator("=")) {
        parameter.fallback = ParseExpression();
      } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
        FailHere("a parameter without a default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
    }
    Take();
    return parameters;
  }

  // A body that break and continue do not leave.
  Body ParseOwnBody(std::string_view end) {
    const size_t loops = loops_;
    loops_ = 0;
    Body body = ParseClosedBody(end);
    loops_ = loops;
    return body;
  }

  void ParseMacro(Statement& statement) {
    Take();
    auto node = std::make_shared<MacroDefinition>();
    node->name = ExpectName();
    node->parameters = ParseParameters();
    ExpectBlockEnd();
    node->body = ParseOwnBody("endmacro");
    ExpectBlockEnd();
    statement.node = std::shared_ptr<const MacroDefinition>(std::move(node));
  }

  void ParseCallBlock(Statement& statement) {
    Take();
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    if (IsOperator("(")) caller->parameters = ParseParameters();
    CallBlock node;
    node.call = ParseExpression();
    if (!std::holds_alternative<Call>(node.call->node)) FailHere("the call block calls nothing");
    ExpectBlockEnd();
    caller->body = ParseOwnBody("endcall");
    ExpectBlockEnd();
    node.caller = std::move(caller);
    statement.node = std::move(node);
  }

  void ParseFilterBlock(Statement& statement) {
    const size_t line = Take().line;
    FilterBlock node;
    node.value = ParseFilters(ParseFilter(Make(line, 0, BodyText{})));
    ExpectBlockEnd();
    node.body = ParseOwnBody("endfilter");
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  void ParseWith(Statement& statement) {
    Take();
    Scoped node;
    while (Current().kind != TokenKind::kBlockEnd) {
      if (!node.bindings.empty()) ExpectOperator(",");
      Target target = ParseTarget(false);
      ExpectOperator("=");
      node.bindings.emplace_back(std::move(target), ParseExpression());
    }
    ExpectBlockEnd();
    node.body = ParseClosedBody("endwith");
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  void ParseGeneration(Statement& statement) {
    Take();
    ExpectBlockEnd();
    Scoped node;
    node.body = ParseOwnBody("endgeneration");
    ExpectBlockEnd();
    statement.node = std::move(node);
  }

  void ParseJump(Statement& statement) {
    if (loops_ == 0) FailHere("'break' and 'continue' stand only in a loop");
    if (Take().text == "break") {
      statement.node = Break{};
    } else {
      statement.node = Continue{};
    }
    ExpectBlockEnd();
  }

  Target ParseTarget(bool with_attribute) {
    const Level level(depth_);
    CheckDepth();
    if (SkipOperator("(")) {
      Target target = ParseTargets(with_attribute);
      ExpectOperator(")");
      return target;
    }
    Target target;
    target.name = ExpectName();
    if (IsReserved(target.name)) FailHere("a reserved word cannot be assigned");
    if (with_attribute && SkipOperator(".")) target.attribute = ExpectName();
    return target;
  }

  static bool IsReserved(std::string_view name) {
    constexpr auto kWords =
        std::to_array<std::string_view>({"true", "false", "none", "True", "False", "None", "and",
                                         "or", "not", "in", "is", "if", "else", "elif", "for"});
    return std::find(kWords.begin(), kWords.end(), name) != kWords.end();
  }

  Target ParseTargets(bool with_attribute) {
    Target first = ParseTarget(with_attribute);
    if (!IsOperator(",")) return first;
    Target several;
    several.items.push_back(std::move(first));
    while (SkipOperator(",")) {
      if (Current().kind != TokenKind::kName && !IsOperator("(")) break;
      if (IsName("in")) break;
      several.items.push_back(ParseTarget(with_attribute));
    }
    return several;
  }

  bool AtTupleEnd() const {
    return Current().kind == TokenKind::kOutputEnd || Current().kind == TokenKind::kBlockEnd ||
           Current().kind == TokenKind::kEnd || IsOperator(")") || IsName("recursive");
  }

  // One expression, or several with commas between: a tuple. An `if` after it belongs to it only
  // `with_conditional`.
  ExpressionPtr ParseTuple(bool with_conditional) {
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

  ExpressionPtr ParseOrNested() {
    const Level level(depth_);
    CheckDepth();
    return ParseOr();
  }

  ExpressionPtr ParseExpression() {
    const Level level(depth_);
    CheckDepth();
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

  ExpressionPtr ParseOr() { return ParseLogical(false); }

  ExpressionPtr ParseLogical(bool is_and) {
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

  ExpressionPtr ParseNot() {
    if (!IsName("not")) return ParseComparison();
    const Level level(depth_);
    CheckDepth();
    const size_t line = Take().line;
    Unary node{Unary::Kind::kNot, ParseNot()};
    const size_t depth = node.operand->depth;
    return Make(line, depth, std::move(node));
  }

  // True if a comparison is next; passes it.
  bool TakeComparison(Comparison::Kind& kind) {
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

  ExpressionPtr ParseComparison() {
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

  ExpressionPtr MakeBinary(size_t line, Binary::Kind kind, ExpressionPtr left,
                           ExpressionPtr right) const {
    const size_t depth = std::max(left->depth, right->depth);
    return Make(line, depth, Binary{kind, std::move(left), std::move(right)});
  }

  ExpressionPtr ParseSum() {
    ExpressionPtr left = ParseConcatenation();
    while (IsOperator("+") || IsOperator("-")) {
      const Token& sign = Take();
      const auto kind = sign.text == "+" ? Binary::Kind::kAdd : Binary::Kind::kSubtract;
      left = MakeBinary(sign.line, kind, std::move(left), ParseConcatenation());
    }
    return left;
  }

  ExpressionPtr ParseConcatenation() {
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

  ExpressionPtr ParseProduct() {
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

  ExpressionPtr ParsePower() {
    ExpressionPtr left = ParseUnary(true);
    while (IsOperator("**")) {
      const size_t line = Take().line;
      left = MakeBinary(line, Binary::Kind::kPower, std::move(left), ParseUnary(true));
    }
    return left;
  }

  ExpressionPtr ParseUnary(bool with_filters) {
    const Level level(depth_);
    CheckDepth();
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

  ExpressionPtr ParsePrimary() {
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

  ExpressionPtr ParseName() {
    const size_t line = Current().line;
    std::string name = Take().text;
    if (name == "true" || name == "True") return Make(line, 0, Literal{Value(true)});
    if (name == "false" || name == "False") return Make(line, 0, Literal{Value(false)});
    if (name == "none" || name == "None") return Make(line, 0, Literal{Value(None{})});
    return Make(line, 0, Name{std::move(name)});
  }

  ExpressionPtr ParseParentheses() {
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

  ExpressionPtr ParseList() {
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

  ExpressionPtr ParseDict() {
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

  ExpressionPtr ParsePostfix(ExpressionPtr result) {
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

  ExpressionPtr ParseAttribute(ExpressionPtr object) {
    const size_t line = Take().line;
    const size_t depth = object->depth;
    if (Current().kind == TokenKind::kInteger) {
      const int64_t index = Take().integer;
      ExpressionPtr key = Make(line, 0, Literal{Value(index)});
      return Make(line, depth, Subscript{std::move(object), std::move(key)});
    }
    return Make(line, depth, Attribute{std::move(object), ExpectName()});
  }

  ExpressionPtr ParseSubscript(ExpressionPtr object) {
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

  CallArguments ParseArguments() {
    CallArguments arguments;
    ExpectOperator("(");
    bool first = true;
    while (!IsOperator(")")) {
      if (!first) ExpectOperator(",");
      first = false;
      if (IsOperator(")")) break;
      if (IsOperator("*") || IsOperator("**")) FailHere("unpacked arguments are not supported");
      const bool named = Current().kind == TokenKind::kName &&
                         Ahead().kind == TokenKind::kOperator && Ahead().text == "=";
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

  ExpressionPtr ParseCall(ExpressionPtr callee) {
    const size_t line = Current().line;
    CallArguments arguments = ParseArguments();
    const size_t depth = std::max(callee->depth, DepthOf(arguments));
    return Make(line, depth, Call{std::move(callee), std::move(arguments)});
  }

  // Filters, tests and calls after a value.
  ExpressionPtr ParseFilters(ExpressionPtr result) {
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

  ExpressionPtr ParseFilter(ExpressionPtr input) {
    const size_t line = Current().line;
    FilterCall node;
    node.name = ExpectName();
    if (IsOperator("(")) node.arguments = ParseArguments();
    const size_t depth = std::max(input->depth, DepthOf(node.arguments));
    node.input = std::move(input);
    return Make(line, depth, std::move(node));
  }

  bool AtTestArgument() const {
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

  ExpressionPtr ParseTest(ExpressionPtr input) {
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

  const std::vector<Token> tokens_;
  const ChatTemplateLimits& limits_;
  size_t position_ = 0;
  size_t depth_ = 0;
  size_t loops_ = 0;  // around the position, within its macro
};

}  // namespace

Body Parse(std::string_view source, const ChatTemplateLimits& limits) {
  if (source.size() > limits.source_bytes) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the chat template has {} bytes, more than {}", source.size(),
                            limits.source_bytes));
  }
  return Parser(Tokenize(source), limits).Run();
}

}  // namespace kvant::jinja
