#include "kvant/model/chat_template/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/expression_parser.h"
#include "kvant/model/chat_template/lexer.h"

namespace kvant::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

// The statements of a template.
class Parser : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, const ChatTemplateLimits& limits)
      : ExpressionParser(std::move(tokens), limits) {}

  Body Run() { return ParseBody({}); }

 private:
  // Statements up to a tag that begins with one of `ends`, of which the name is next then; or up
  // to the end of the source where `ends` is empty.
  Body ParseBody(Names ends) {
    const Level level(this);
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
    const Level level(this);
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
