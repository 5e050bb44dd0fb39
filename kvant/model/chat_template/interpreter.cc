#include "kvant/model/chat_template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>

#include "kvant/core/error.h"
#include "kvant/model/chat_template/arguments.h"
#include "kvant/model/chat_template/filters.h"
#include "kvant/model/chat_template/methods.h"
#include "kvant/model/chat_template/operators.h"

namespace kvant::jinja {

// The names of one block. Blocks inside see them; a macro keeps those where it was defined.
struct Scope {
  Scope* parent = nullptr;
  std::unordered_map<std::string_view, Value> names;
  bool captured = false;
};

struct Macro {
  const MacroDefinition* definition = nullptr;
  Scope* scope = nullptr;
};

namespace {

enum class Flow { kNext, kBreak, kContinue };

constexpr auto kFunctions = std::to_array<std::string_view>(
    {"dict", "namespace", "raise_exception", "range", "strftime_now"});

class Interpreter {
 public:
  Interpreter(const std::tm& now, const ChatTemplateLimits& limits) : now_(now), budget_(limits) {}

  std::string Run(const Body& body,
                  const std::vector<std::pair<std::string, OrderedJson>>& context) {
    std::string out;
    out_ = &out;
    try {
      const Frame frame(*this);
      for (const auto& [name, json] : context) scope_->names[name] = FromJson(json, budget_);
      Execute(body);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("chat template, line {}: {}", line_, error.message()),
                  error.hint());
    }
    return out;
  }

 private:
  // A new scope inside the current one, while it lives.
  class Frame {
   public:
    explicit Frame(Interpreter& owner) : Frame(owner, owner.scope_) {}
    Frame(Interpreter& owner, Scope* parent) : owner_(owner), before_(owner.scope_) {
      owner.scope_ = owner.NewScope(parent);
    }
    ~Frame() {
      owner_.Recycle(owner_.scope_);
      owner_.scope_ = before_;
    }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Interpreter& owner_;
    Scope* before_;
  };

  // One level of evaluation, while it lives.
  class Level {
   public:
    explicit Level(Interpreter& owner) : owner_(owner) {
      if (owner.depth_ >= owner.budget_.limits().evaluation_depth) {
        Fail(fmt::format("nests calls and blocks deeper than {} levels",
                         owner.budget_.limits().evaluation_depth));
      }
      ++owner.depth_;
    }
    ~Level() { --owner_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Interpreter& owner_;
  };

  Scope* NewScope(Scope* parent) {
    if (free_scopes_.empty()) {
      scopes_.emplace_back();
      free_scopes_.push_back(&scopes_.back());
    }
    Scope* scope = free_scopes_.back();
    free_scopes_.pop_back();
    scope->parent = parent;
    return scope;
  }

  void Recycle(Scope* scope) {
    if (scope->captured) return;
    scope->names.clear();
    free_scopes_.push_back(scope);
  }

  const Macro* NewMacro(const MacroDefinition& definition) {
    for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
      scope->captured = true;
    }
    macros_.push_back({&definition, scope_});
    return &macros_.back();
  }

  Value Lookup(std::string_view name) const {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
      const auto found = scope->names.find(name);
      if (found != scope->names.end()) return found->second;
    }
    const auto* function = std::find(kFunctions.begin(), kFunctions.end(), name);
    if (function != kFunctions.end()) return Value(Function{*function});
    return Value(Undefined{std::make_shared<const std::string>(name)});
  }

  void Assign(const Target& target, const Value& value) {
    if (!target.items.empty()) return AssignItems(target, value);
    if (target.attribute.empty()) {
      scope_->names[target.name] = value;
      return;
    }
    Namespace* space = Lookup(target.name).AsNamespace();
    if (space == nullptr) {
      Fail(fmt::format("'{}' is no namespace, so its attributes cannot be set", target.name));
    }
    budget_.Step(1 + space->items.size() / 8);
    space->Set(target.attribute, value);
  }

  void AssignItems(const Target& target, const Value& value) {
    const auto items = ItemsOf(value, budget_);
    if (items->items.size() != target.items.size()) {
      Fail(fmt::format("takes {} items apart into {} names", items->items.size(),
                       target.items.size()));
    }
    for (size_t i = 0; i < target.items.size(); ++i) Assign(target.items[i], items->items[i]);
  }

  // The output of `body`, in a scope of its own.
  std::string Capture(const Body& body) {
    std::string text;
    std::string* before = out_;
    out_ = &text;
    const Frame frame(*this);
    Execute(body);
    out_ = before;
    return text;
  }

  Flow Execute(const Body& body) {
    const Level level(*this);
    for (const Statement& statement : body) {
      budget_.Step();
      line_ = statement.line;
      const Flow flow =
          std::visit([this](const auto& node) { return ExecuteNode(node); }, statement.node);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  void CheckOutput() const {
    if (out_->size() > budget_.limits().output_bytes) {
      Fail(fmt::format("writes more than {} bytes", budget_.limits().output_bytes));
    }
  }

  Flow ExecuteNode(const TextStatement& node) {
    budget_.Step(node.text.size() / 16);
    *out_ += node.text;
    CheckOutput();
    return Flow::kNext;
  }

  Flow ExecuteNode(const Output& node) {
    AppendText(Evaluate(*node.value), *out_, budget_);
    CheckOutput();
    return Flow::kNext;
  }

  Flow ExecuteNode(const If& node) {
    for (const Branch& branch : node.branches) {
      if (branch.condition == nullptr || IsTrue(Evaluate(*branch.condition))) {
        return Execute(branch.body);
      }
    }
    return Flow::kNext;
  }

  // The items of a loop that its condition lets pass.
  std::shared_ptr<const List> LoopItems(const For& node) {
    auto items = ItemsOf(Evaluate(*node.items), budget_);
    if (node.condition == nullptr) return items;
    std::vector<Value> kept;
    const Frame frame(*this);
    for (const Value& item : items->items) {
      scope_->names.clear();
      Assign(node.target, item);
      if (IsTrue(Evaluate(*node.condition))) kept.push_back(item);
    }
    return std::get<std::shared_ptr<const List>>(NewList(std::move(kept), budget_).data());
  }

  Flow ExecuteNode(const For& node) {
    const auto items = LoopItems(node);
    if (items->items.empty()) {
      const Frame frame(*this);
      return Execute(node.otherwise);
    }
    for (size_t i = 0; i < items->items.size(); ++i) {
      const Frame frame(*this);
      scope_->names["loop"] = Value(std::make_shared<const Loop>(Loop{items, i}));
      Assign(node.target, items->items[i]);
      if (Execute(node.body) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  Flow ExecuteNode(const Set& node) {
    Assign(node.target, Evaluate(*node.value));
    return Flow::kNext;
  }

  // Runs `body`, then the filters of `value` over what it wrote.
  Value Filtered(const Body& body, const Expression& value) {
    Value text = NewText(Capture(body), budget_);
    std::swap(text, body_text_);
    Value result = Evaluate(value);
    std::swap(text, body_text_);
    return result;
  }

  Flow ExecuteNode(const SetBlock& node) {
    Assign(node.target, Filtered(node.body, *node.value));
    return Flow::kNext;
  }

  Flow ExecuteNode(const FilterBlock& node) {
    AppendText(Filtered(node.body, *node.value), *out_, budget_);
    CheckOutput();
    return Flow::kNext;
  }

  Flow ExecuteNode(const std::shared_ptr<const MacroDefinition>& node) {
    scope_->names[node->name] = Value(NewMacro(*node));
    return Flow::kNext;
  }

  Flow ExecuteNode(const CallBlock& node) {
    const auto& call = std::get<Call>(node.call->node);
    const Value callee = Evaluate(*call.callee);
    const auto* macro = std::get_if<const Macro*>(&callee.data());
    if (macro == nullptr) Fail("a call block calls something other than a macro");
    const Arguments arguments = EvaluateArguments(call.arguments);
    AppendText(CallMacro(**macro, arguments, NewMacro(*node.caller)), *out_, budget_);
    CheckOutput();
    return Flow::kNext;
  }

  Flow ExecuteNode(const Scoped& node) {
    const Frame frame(*this);
    for (const auto& [target, value] : node.bindings) Assign(target, Evaluate(*value));
    return Execute(node.body);
  }

  Flow ExecuteNode(const Break&) { return Flow::kBreak; }
  Flow ExecuteNode(const Continue&) { return Flow::kContinue; }

  Value Evaluate(const Expression& expression) {
    const Level level(*this);
    budget_.Step();
    line_ = expression.line;
    return std::visit([this](const auto& node) { return EvaluateNode(node); }, expression.node);
  }

  Value EvaluateOr(const ExpressionPtr& expression, Value fallback) {
    return expression == nullptr ? std::move(fallback) : Evaluate(*expression);
  }

  Value EvaluateNode(const Literal& node) { return node.value; }
  Value EvaluateNode(const Name& node) { return Lookup(node.name); }
  Value EvaluateNode(const BodyText&) { return body_text_; }

  Value EvaluateNode(const ListLiteral& node) {
    std::vector<Value> items;
    for (const auto& item : node.items) items.push_back(Evaluate(*item));
    return NewList(std::move(items), budget_, node.tuple ? ListKind::kTuple : ListKind::kList);
  }

  Value EvaluateNode(const DictLiteral& node) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key, value] : node.items) {
      Value first = Evaluate(*key);
      items.emplace_back(std::move(first), Evaluate(*value));
    }
    return NewDict(std::move(items), budget_);
  }

  Value EvaluateNode(const Attribute& node) {
    return AttributeOf(Evaluate(*node.object), node.name, budget_);
  }

  Value EvaluateNode(const Subscript& node) {
    const Value object = Evaluate(*node.object);
    return ItemOf(object, Evaluate(*node.key), budget_);
  }

  Value EvaluateNode(const Slice& node) {
    const Value object = Evaluate(*node.object);
    const Value start = EvaluateOr(node.start, Value(None{}));
    const Value stop = EvaluateOr(node.stop, Value(None{}));
    return SliceOf(object, start, stop, EvaluateOr(node.step, Value(None{})), budget_);
  }

  Arguments EvaluateArguments(const CallArguments& syntax) {
    Arguments arguments;
    for (const auto& value : syntax.positional) arguments.positional.push_back(Evaluate(*value));
    for (const auto& [name, value] : syntax.named) {
      for (const auto& other : arguments.named) {
        if (other.first == name) Fail(fmt::format("gives the argument '{}' twice", name));
      }
      arguments.named.emplace_back(name, Evaluate(*value));
    }
    return arguments;
  }

  Value EvaluateNode(const Call& node) {
    const Value callee = Evaluate(*node.callee);
    const Arguments arguments = EvaluateArguments(node.arguments);
    if (const Method* method = callee.AsMethod()) return CallMethod(*method, arguments, budget_);
    if (const auto* macro = std::get_if<const Macro*>(&callee.data())) {
      return CallMacro(**macro, arguments, nullptr);
    }
    if (const auto* function = std::get_if<Function>(&callee.data())) {
      return CallFunction(function->name, arguments);
    }
    const auto* undefined = std::get_if<Undefined>(&callee.data());
    if (undefined != nullptr && undefined->name != nullptr) {
      Fail(fmt::format("'{}' is undefined and cannot be called", *undefined->name));
    }
    Fail(fmt::format("calls a {}", TypeName(callee)));
  }

  Value EvaluateNode(const FilterCall& node) {
    const Value input = Evaluate(*node.input);
    return ApplyFilter(node.name, input, EvaluateArguments(node.arguments), budget_);
  }

  Value EvaluateNode(const TestCall& node) {
    const Value input = Evaluate(*node.input);
    return Value(ApplyTest(node.name, input, EvaluateArguments(node.arguments), budget_));
  }

  Value EvaluateNode(const Unary& node) { return ApplyUnary(node.kind, Evaluate(*node.operand)); }

  Value EvaluateNode(const Binary& node) {
    const Value left = Evaluate(*node.left);
    return ApplyBinary(node.kind, left, Evaluate(*node.right), budget_);
  }

  Value EvaluateNode(const Logical& node) {
    Value left = Evaluate(*node.left);
    return IsTrue(left) == node.is_and ? Evaluate(*node.right) : left;
  }

  Value EvaluateNode(const Concatenation& node) {
    std::string text;
    for (const auto& part : node.parts) AppendText(Evaluate(*part), text, budget_);
    return NewText(std::move(text), budget_);
  }

  Value EvaluateNode(const Comparison& node) {
    Value left = Evaluate(*node.first);
    for (const auto& [kind, expression] : node.rest) {
      Value right = Evaluate(*expression);
      if (!ApplyComparison(kind, left, right, budget_)) return Value(false);
      left = std::move(right);
    }
    return Value(true);
  }

  Value EvaluateNode(const Conditional& node) {
    if (IsTrue(Evaluate(*node.condition))) return Evaluate(*node.then);
    return EvaluateOr(node.otherwise, Value());
  }

  // Gives each parameter its argument, its default, or an undefined value.
  void BindParameters(const MacroDefinition& definition, const Arguments& arguments) {
    const auto& parameters = definition.parameters;
    if (arguments.positional.size() > parameters.size()) {
      Fail(fmt::format("the macro '{}' takes at most {} arguments", definition.name,
                       parameters.size()));
    }
    size_t used = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].name;
      const auto named =
          std::find_if(arguments.named.begin(), arguments.named.end(),
                       [&name](const auto& argument) { return argument.first == name; });
      if (i < arguments.positional.size()) {
        scope_->names[name] = arguments.positional[i];
      } else if (named != arguments.named.end()) {
        scope_->names[name] = named->second;
        ++used;
      } else if (parameters[i].fallback != nullptr) {
        scope_->names[name] = Evaluate(*parameters[i].fallback);
      } else {
        scope_->names[name] = Value(Undefined{std::make_shared<const std::string>(name)});
      }
    }
    if (used < arguments.named.size()) {
      Fail(fmt::format("the macro '{}' has an argument that it does not take", definition.name));
    }
  }

  Value CallMacro(const Macro& macro, const Arguments& arguments, const Macro* caller) {
    const size_t line = line_;
    const Frame frame(*this, macro.scope);
    if (caller != nullptr) scope_->names["caller"] = Value(caller);
    BindParameters(*macro.definition, arguments);
    Value text = NewText(Capture(macro.definition->body), budget_);
    line_ = line;
    return text;
  }

  Value CallFunction(std::string_view name, const Arguments& arguments) {
    if (name == "range") return CallRange(arguments);
    if (name == "namespace") return CallNamespace(arguments);
    if (name == "dict") return NewDict(NamedItems(name, arguments), budget_);
    ArgumentReader reader(name, arguments);
    if (name == "strftime_now") return CallStrftime(reader.RequiredText("format"));
    Fail(TextOf(reader.Required("message"), budget_));
  }

  // The items of dict(…) and namespace(…): those of a mapping or of pairs, then named ones.
  std::vector<std::pair<Value, Value>> NamedItems(std::string_view function,
                                                  const Arguments& arguments) {
    std::vector<std::pair<Value, Value>> items;
    if (arguments.positional.size() > 1) {
      Fail(fmt::format("{} takes at most one argument without a name", function));
    }
    if (!arguments.positional.empty()) {
      const Value& source = arguments.positional[0];
      if (const Dict* dict = source.AsDict()) {
        items = dict->items;
      } else {
        const auto taken = ItemsOf(source, budget_);
        for (const Value& pair : taken->items) {
          const auto parts = ItemsOf(pair, budget_);
          if (parts->items.size() != 2) Fail(fmt::format("{} takes pairs", function));
          items.emplace_back(parts->items[0], parts->items[1]);
        }
      }
    }
    for (const auto& [key, value] : arguments.named) {
      items.emplace_back(NewText(key, budget_), value);
    }
    return items;
  }

  Value CallNamespace(const Arguments& arguments) {
    namespaces_.emplace_back();
    Namespace& space = namespaces_.back();
    for (auto& [key, value] : NamedItems("namespace", arguments)) {
      budget_.Step(1 + space.items.size() / 8);
      space.Set(TextOf(key, budget_), std::move(value));
    }
    return Value(&space);
  }

  Value CallRange(const Arguments& arguments) {
    std::array<int64_t, 3> bounds = {0, 0, 1};
    const size_t count = arguments.positional.size();
    if (count < 1 || count > 3 || !arguments.named.empty()) {
      Fail("range takes one to three integers");
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t at = count == 1 ? 1 : i;
      if (!arguments.positional[i].AsInteger(bounds[at])) Fail("range takes integers");
    }
    const auto [start, stop, step] = bounds;
    if (step == 0) Fail("range has step 0");
    // Unsigned differences do not overflow.
    const auto from = static_cast<uint64_t>(start);
    const auto by = static_cast<uint64_t>(step);
    const bool empty = step > 0 ? stop <= start : stop >= start;
    const uint64_t distance =
        step > 0 ? static_cast<uint64_t>(stop) - from : from - static_cast<uint64_t>(stop);
    const uint64_t size = empty ? 0 : (distance - 1) / (step > 0 ? by : 0 - by) + 1;
    if (size > budget_.limits().range_items) {
      Fail(fmt::format("range has more than {} items", budget_.limits().range_items));
    }
    budget_.List(size);
    std::vector<Value> items;
    for (uint64_t i = 0; i < size; ++i) {
      items.emplace_back(static_cast<int64_t>(from + i * by));
    }
    return NewList(std::move(items), budget_);
  }

  Value CallStrftime(const std::string& format) {
    if (format.empty()) return NewText("", budget_);
    std::array<char, 1024> buffer{};
    const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now_);
    if (size == 0) Fail("strftime_now has a format that is too long");
    return NewText(std::string(buffer.data(), size), budget_);
  }

  const std::tm& now_;
  Budget budget_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  std::deque<Macro> macros_;
  std::deque<Namespace> namespaces_;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  Value body_text_;
  size_t line_ = 0;
  size_t depth_ = 0;
};

}  // namespace

std::string Interpret(const Body& body,
                      const std::vector<std::pair<std::string, OrderedJson>>& context,
                      const std::tm& now, const ChatTemplateLimits& limits) {
  return Interpreter(now, limits).Run(body, context);
}

}  // namespace kvant::jinja
