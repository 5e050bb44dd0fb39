// The values of a template: Python's data model as far as chat templates see it.
//
// Values are immutable and share their content; only a Namespace changes, and it belongs to the
// interpreter, as macros do, so values never form a cycle of owners. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvant/model/chat_template/budget.h"

namespace kvant::jinja {

class Value;
struct Dict;
struct List;
struct Loop;
struct Macro;
struct Method;
struct Namespace;

using Text = std::shared_ptr<const std::string>;

// A name that is not there. `name` says which, for messages; may be null.
struct Undefined {
  Text name;
};
struct None {};
// Text that the filter `safe` marked: what is added to it is escaped as HTML.
struct Markup {
  Text text;
};
// A global function, such as range.
struct Function {
  std::string_view name;
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, Markup,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                            std::shared_ptr<const Loop>, std::shared_ptr<const Method>, Namespace*,
                            const Macro*, Function>;

  Value() = default;
  Value(Data data) : data_(std::move(data)) {}  // NOLINT: every alternative is a value

  const Data& data() const { return data_; }

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsInteger() const { return std::holds_alternative<int64_t>(data_); }
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  // Python counts its booleans among the numbers.
  bool IsNumber() const { return IsBool() || IsInteger() || IsFloat(); }
  bool IsText() const { return std::holds_alternative<Text>(data_) || IsMarkup(); }
  bool IsMarkup() const { return std::holds_alternative<Markup>(data_); }
  bool IsCallable() const;

  // Null or empty unless the value is of that type.
  const std::string* AsText() const;
  const List* AsList() const;
  const Dict* AsDict() const;
  const Loop* AsLoop() const;
  const Method* AsMethod() const;
  Namespace* AsNamespace() const;
  // True for a bool or an integer, whose value goes to `out`.
  bool AsInteger(int64_t& out) const;
  // True for any number.
  bool AsFloat(double& out) const;

 private:
  Data data_;
};

enum class ListKind {
  kList,
  kTuple,
  kView,      // keys, values or items of a dict: a length, but no index
  kIterator,  // what lazy filters give: true even when empty, and read only once
};

struct List {
  ListKind kind = ListKind::kList;
  std::vector<Value> items;
  size_t depth = 1;
  mutable bool consumed = false;
};

struct Dict {
  // In the order of insertion; keys are unique.
  std::vector<std::pair<Value, Value>> items;
  size_t depth = 1;

  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> items;

  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

// The `loop` of a for block, as it was in one iteration.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
};

// A method of a text, list, dict or loop that awaits its call.
struct Method {
  Value receiver;
  std::string name;
};

// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Makers, which pay for what they make and refuse what passes a limit.
Value NewText(std::string text, Budget& budget);
Value NewMarkup(std::string text, Budget& budget);
Value NewList(std::vector<Value> items, Budget& budget, ListKind kind = ListKind::kList);
// A later pair replaces the value of an earlier one with an equal key.
Value NewDict(std::vector<std::pair<Value, Value>> items, Budget& budget);
Value NewMethod(const Value& receiver, std::string name, Budget& budget);

// Python's name of the type, for messages.
std::string_view TypeName(const Value& value);

bool IsTrue(const Value& value);
bool AreEqual(const Value& left, const Value& right, Budget& budget);
// Negative, zero or positive. Fails on types that have no order.
int Compare(const Value& left, const Value& right, Budget& budget);
// `item in container`.
bool Contains(const Value& container, const Value& item, Budget& budget);
// What a for loop over the value sees. Fails on what has no items. An iterator gives its items
// once, then nothing.
std::shared_ptr<const List> ItemsOf(const Value& value, Budget& budget);
// Python's len(). Fails on what has none.
size_t LengthOf(const Value& value);

// Python's str() and repr(), appended to `out`, which may not grow beyond the text limit.
void AppendText(const Value& value, std::string& out, Budget& budget);
void AppendRepr(const Value& value, std::string& out, Budget& budget);
std::string TextOf(const Value& value, Budget& budget);
// Python's repr() of a float.
std::string FloatText(double number);

// `value.name` and `value[key]`: undefined when it is not there, a failure on an undefined value.
Value AttributeOf(const Value& value, std::string_view name, Budget& budget);
Value ItemOf(const Value& value, const Value& key, Budget& budget);
// `value[start:stop:step]` of a text, list or tuple; None where a bound is left out.
Value SliceOf(const Value& value, const Value& start, const Value& stop, const Value& step,
              Budget& budget);

}  // namespace kvant::jinja
