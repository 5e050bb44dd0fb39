// The tests of Jinja: `value is name(arguments)`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kvant/model/chat_template/arguments.h"
#include "kvant/model/chat_template/filters.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

using Predicate = bool (*)(const Value&, ArgumentReader&, Budget&);

int64_t IntegerOf(const Value& value) {
  int64_t integer = 0;
  if (!value.AsInteger(integer)) {
    Fail(fmt::format("tests a {} as an integer", TypeName(value)));
  }
  return integer;
}

bool IsSequence(const Value& value) {
  const List* list = value.AsList();
  const bool indexed =
      list != nullptr && (list->kind == ListKind::kList || list->kind == ListKind::kTuple);
  return indexed || value.IsUndefined() || value.AsText() != nullptr || value.AsDict() != nullptr;
}

bool IsIterable(const Value& value) {
  return value.IsUndefined() || value.AsText() != nullptr || value.AsDict() != nullptr ||
         value.AsList() != nullptr || value.AsLoop() != nullptr;
}

bool AreSame(const Value& left, const Value& right, Budget& budget) {
  const bool scalar = left.IsNone() || left.IsNumber() || left.AsNamespace() != nullptr;
  if (scalar) return left.data().index() == right.data().index() && AreEqual(left, right, budget);
  if (left.AsText() != nullptr) return left.AsText() == right.AsText();
  if (left.AsList() != nullptr) return left.AsList() == right.AsList();
  return left.AsDict() != nullptr && left.AsDict() == right.AsDict();
}

bool Equal(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return AreEqual(input, arguments.Required("other"), budget);
}

bool Unequal(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return !AreEqual(input, arguments.Required("other"), budget);
}

bool Less(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Compare(input, arguments.Required("other"), budget) < 0;
}

bool LessOrEqual(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Compare(input, arguments.Required("other"), budget) <= 0;
}

bool Greater(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Compare(input, arguments.Required("other"), budget) > 0;
}

bool GreaterOrEqual(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Compare(input, arguments.Required("other"), budget) >= 0;
}

bool DivisibleBy(const Value& input, ArgumentReader& arguments, Budget&) {
  const int64_t divisor = IntegerOf(arguments.Required("num"));
  if (divisor == 0) Fail("divides by zero");
  // The quotient of the least integer and -1 does not fit.
  return divisor == -1 || IntegerOf(input) % divisor == 0;
}

struct PredicateEntry {
  std::string_view name;
  Predicate holds;
};

constexpr auto kPredicates = std::to_array<PredicateEntry>({
    {"!=", Unequal},
    {"<", Less},
    {"<=", LessOrEqual},
    {"==", Equal},
    {">", Greater},
    {">=", GreaterOrEqual},
    {"boolean", [](const Value& input, ArgumentReader&, Budget&) { return input.IsBool(); }},
    {"callable", [](const Value& input, ArgumentReader&, Budget&) { return input.IsCallable(); }},
    {"defined", [](const Value& input, ArgumentReader&, Budget&) { return !input.IsUndefined(); }},
    {"divisibleby", DivisibleBy},
    {"eq", Equal},
    {"equalto", Equal},
    {"even",
     [](const Value& input, ArgumentReader&, Budget&) { return IntegerOf(input) % 2 == 0; }},
    {"false",
     [](const Value& input, ArgumentReader&, Budget&) { return input.IsBool() && !IsTrue(input); }},
    {"filter", [](const Value& input, ArgumentReader&,
                  Budget&) { return input.AsText() != nullptr && IsFilter(*input.AsText()); }},
    {"float", [](const Value& input, ArgumentReader&, Budget&) { return input.IsFloat(); }},
    {"ge", GreaterOrEqual},
    {"greaterthan", Greater},
    {"gt", Greater},
    {"in", [](const Value& input, ArgumentReader& arguments,
              Budget& budget) { return Contains(arguments.Required("seq"), input, budget); }},
    {"integer", [](const Value& input, ArgumentReader&, Budget&) { return input.IsInteger(); }},
    {"iterable", [](const Value& input, ArgumentReader&, Budget&) { return IsIterable(input); }},
    {"le", LessOrEqual},
    {"lessthan", Less},
    {"lower", [](const Value& input, ArgumentReader&,
                 Budget& budget) { return IsLower(TextOf(input, budget)); }},
    {"lt", Less},
    {"mapping",
     [](const Value& input, ArgumentReader&, Budget&) { return input.AsDict() != nullptr; }},
    {"ne", Unequal},
    {"none", [](const Value& input, ArgumentReader&, Budget&) { return input.IsNone(); }},
    {"number", [](const Value& input, ArgumentReader&, Budget&) { return input.IsNumber(); }},
    {"odd", [](const Value& input, ArgumentReader&, Budget&) { return IntegerOf(input) % 2 != 0; }},
    {"sameas", [](const Value& input, ArgumentReader& arguments,
                  Budget& budget) { return AreSame(input, arguments.Required("other"), budget); }},
    {"sequence", [](const Value& input, ArgumentReader&, Budget&) { return IsSequence(input); }},
    {"string",
     [](const Value& input, ArgumentReader&, Budget&) { return input.AsText() != nullptr; }},
    {"test", [](const Value& input, ArgumentReader&,
                Budget&) { return input.AsText() != nullptr && IsTest(*input.AsText()); }},
    {"true",
     [](const Value& input, ArgumentReader&, Budget&) { return input.IsBool() && IsTrue(input); }},
    {"undefined", [](const Value& input, ArgumentReader&, Budget&) { return input.IsUndefined(); }},
    {"upper", [](const Value& input, ArgumentReader&,
                 Budget& budget) { return IsUpper(TextOf(input, budget)); }},
});

const PredicateEntry* FindPredicate(std::string_view name) {
  const auto* found = std::find_if(kPredicates.begin(), kPredicates.end(),
                                   [&](const PredicateEntry& entry) { return entry.name == name; });
  return found == kPredicates.end() ? nullptr : found;
}

}  // namespace

bool IsTest(std::string_view name) { return FindPredicate(name) != nullptr; }

bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments,
               Budget& budget) {
  const PredicateEntry* predicate = FindPredicate(name);
  if (predicate == nullptr) Fail(fmt::format("uses the test '{}', which is not known", name));
  ArgumentReader reader(name, arguments);
  const bool holds = predicate->holds(input, reader, budget);
  reader.Finish();
  return holds;
}

}  // namespace kvant::jinja
