#include "kvant/model/chat_template/operators.h"

#include <fmt/format.h>

#include <cmath>

#include "kvant/model/chat_template/methods.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

std::string_view Verb(Binary::Kind kind) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return "adds";
    case Binary::Kind::kSubtract:
      return "subtracts";
    case Binary::Kind::kMultiply:
      return "multiplies";
    case Binary::Kind::kPower:
      return "raises";
    default:
      return "divides";
  }
}

[[noreturn]] void FailOperands(Binary::Kind kind, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    const auto* undefined = std::get_if<Undefined>(&value->data());
    if (undefined == nullptr) continue;
    Fail(fmt::format("'{}' is undefined", undefined->name == nullptr ? "value" : *undefined->name));
  }
  Fail(fmt::format("{} a {} and a {}", Verb(kind), TypeName(left), TypeName(right)));
}

Value RaiseInteger(int64_t base, int64_t exponent) {
  int64_t result = 1;
  const bool trivial = base == 0 || base == 1 || base == -1;
  if (trivial) exponent = exponent == 0 ? 0 : 2 - exponent % 2;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) Fail("an integer leaves 64 bits");
  }
  return Value(result);
}

// Both round down, as Python does.
int64_t FloorDivide(int64_t left, int64_t right) {
  if (right == 0) Fail("divides by zero");
  int64_t negated = 0;
  if (right == -1) {
    if (__builtin_sub_overflow(int64_t{0}, left, &negated)) Fail("an integer leaves 64 bits");
    return negated;
  }
  const bool inexact = left % right != 0;
  return left / right - (inexact && (left < 0) != (right < 0) ? 1 : 0);
}

int64_t FloorModulo(int64_t left, int64_t right) {
  if (right == 0) Fail("divides by zero");
  if (right == -1) return 0;
  const int64_t remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

Value IntegerResult(Binary::Kind kind, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflow = false;
  switch (kind) {
    case Binary::Kind::kAdd:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case Binary::Kind::kSubtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case Binary::Kind::kMultiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case Binary::Kind::kFloorDivide:
      return Value(FloorDivide(left, right));
    case Binary::Kind::kModulo:
      return Value(FloorModulo(left, right));
    case Binary::Kind::kPower:
      if (right >= 0) return RaiseInteger(left, right);
      if (left == 0) Fail("divides by zero");
      return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
    case Binary::Kind::kDivide:
      if (right == 0) Fail("divides by zero");
      return Value(static_cast<double>(left) / static_cast<double>(right));
  }
  if (overflow) Fail("an integer leaves 64 bits");
  return Value(result);
}

Value FloatResult(Binary::Kind kind, double left, double right) {
  const bool divides = kind == Binary::Kind::kDivide || kind == Binary::Kind::kFloorDivide ||
                       kind == Binary::Kind::kModulo;
  if (divides && right == 0) Fail("divides by zero");
  switch (kind) {
    case Binary::Kind::kAdd:
      return Value(left + right);
    case Binary::Kind::kSubtract:
      return Value(left - right);
    case Binary::Kind::kMultiply:
      return Value(left * right);
    case Binary::Kind::kDivide:
      return Value(left / right);
    case Binary::Kind::kFloorDivide:
      return Value(std::floor(left / right));
    case Binary::Kind::kPower:
      return Value(std::pow(left, right));
    case Binary::Kind::kModulo:
      break;
  }
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  return Value(remainder);
}

Value Joined(const List& left, const List& right, Budget& budget) {
  budget.List(left.items.size() + right.items.size());
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return NewList(std::move(items), budget, left.kind);
}

Value JoinedTexts(const Value& left, const Value& right, Budget& budget) {
  const std::string& first = *left.AsText();
  const std::string& second = *right.AsText();
  budget.Text(first.size() + second.size());
  if (!left.IsMarkup() && !right.IsMarkup()) return NewText(first + second, budget);
  return NewMarkup((left.IsMarkup() ? first : EscapeHtml(first)) +
                       (right.IsMarkup() ? second : EscapeHtml(second)),
                   budget);
}

// A text or list, `count` times in a row.
Value Repeated(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  const std::string* text = value.AsText();
  const size_t size = text != nullptr ? text->size() : value.AsList()->items.size();
  size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total)) Fail("repeats a value too often");
  if (text != nullptr) {
    budget.Text(total);
    std::string out;
    out.reserve(total);
    for (size_t i = 0; out.size() < total; ++i) out += *text;
    return NewText(std::move(out), budget);
  }
  budget.List(total);
  std::vector<Value> items;
  const auto& source = value.AsList()->items;
  while (items.size() < total) items.insert(items.end(), source.begin(), source.end());
  return NewList(std::move(items), budget, value.AsList()->kind);
}

bool IsIndexed(const Value& value) {
  const List* list = value.AsList();
  return list != nullptr && (list->kind == ListKind::kList || list->kind == ListKind::kTuple);
}

}  // namespace

Value ApplyBinary(Binary::Kind kind, const Value& left, const Value& right, Budget& budget) {
  int64_t a = 0;
  int64_t b = 0;
  if (left.AsInteger(a) && right.AsInteger(b)) return IntegerResult(kind, a, b);
  double x = 0;
  double y = 0;
  if (left.AsFloat(x) && right.AsFloat(y)) return FloatResult(kind, x, y);
  const std::string* text = left.AsText();
  if (kind == Binary::Kind::kAdd) {
    if (text != nullptr && right.AsText() != nullptr) {
      return JoinedTexts(left, right, budget);
    }
    const bool joins =
        IsIndexed(left) && IsIndexed(right) && left.AsList()->kind == right.AsList()->kind;
    if (joins) return Joined(*left.AsList(), *right.AsList(), budget);
  }
  if (kind == Binary::Kind::kModulo && text != nullptr && !right.IsUndefined()) {
    return PercentFormat(*text, right, budget);
  }
  if (kind == Binary::Kind::kMultiply) {
    if ((text != nullptr || IsIndexed(left)) && right.AsInteger(b)) {
      return Repeated(left, b, budget);
    }
    if ((right.AsText() != nullptr || IsIndexed(right)) && left.AsInteger(a)) {
      return Repeated(right, a, budget);
    }
  }
  FailOperands(kind, left, right);
}

Value ApplyUnary(Unary::Kind kind, const Value& operand) {
  if (kind == Unary::Kind::kNot) return Value(!IsTrue(operand));
  const bool negates = kind == Unary::Kind::kMinus;
  int64_t integer = 0;
  double number = 0;
  if (operand.AsInteger(integer)) {
    if (negates && __builtin_sub_overflow(int64_t{0}, integer, &integer)) {
      Fail("an integer leaves 64 bits");
    }
    return Value(integer);
  }
  if (!operand.AsFloat(number)) Fail(fmt::format("negates a {}", TypeName(operand)));
  return Value(negates ? -number : number);
}

bool ApplyComparison(Comparison::Kind kind, const Value& left, const Value& right, Budget& budget) {
  double x = 0;
  double y = 0;
  // Not a number compares false with everything.
  const bool unordered = left.AsFloat(x) && right.AsFloat(y) && (std::isnan(x) || std::isnan(y));
  switch (kind) {
    case Comparison::Kind::kEqual:
      return AreEqual(left, right, budget);
    case Comparison::Kind::kUnequal:
      return !AreEqual(left, right, budget);
    case Comparison::Kind::kLess:
      return !unordered && Compare(left, right, budget) < 0;
    case Comparison::Kind::kLessOrEqual:
      return !unordered && Compare(left, right, budget) <= 0;
    case Comparison::Kind::kGreater:
      return !unordered && Compare(left, right, budget) > 0;
    case Comparison::Kind::kGreaterOrEqual:
      return !unordered && Compare(left, right, budget) >= 0;
    case Comparison::Kind::kIn:
      return Contains(right, left, budget);
    case Comparison::Kind::kNotIn:
      return !Contains(right, left, budget);
  }
  return false;
}

}  // namespace kvant::jinja
