#include "kvant/model/chat_template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kvant/model/chat_template/methods.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

size_t DepthOf(const Value& value) {
  if (const List* list = value.AsList()) return list->depth;
  if (const Dict* dict = value.AsDict()) return dict->depth;
  if (const Loop* loop = value.AsLoop()) return loop->items->depth;
  if (const Method* method = value.AsMethod()) return 1 + DepthOf(method->receiver);
  return 0;
}

size_t CheckedDepth(size_t depth, const Budget& budget) {
  if (depth > budget.limits().value_depth) {
    Fail(fmt::format("makes lists nested deeper than {} levels", budget.limits().value_depth));
  }
  return depth;
}

void CheckLength(const std::string& out, const Budget& budget) {
  if (out.size() > budget.limits().text_bytes) {
    Fail(fmt::format("makes a text of more than {} bytes", budget.limits().text_bytes));
  }
}

bool ListsAreEqual(const List& left, const List& right, Budget& budget) {
  const bool same_type =
      left.kind == right.kind && (left.kind == ListKind::kList || left.kind == ListKind::kTuple);
  if (!same_type) return &left == &right;
  if (left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (!AreEqual(left.items[i], right.items[i], budget)) return false;
  }
  return true;
}

bool DictsAreEqual(const Dict& left, const Dict& right, Budget& budget) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    budget.Step(1 + right.items.size() / 8);
    const Value* other = right.Find(key);
    if (other == nullptr || !AreEqual(value, *other, budget)) return false;
  }
  return true;
}

int Sign(bool less, bool greater) { return less ? -1 : (greater ? 1 : 0); }

void AppendListRepr(const List& list, std::string& out, Budget& budget) {
  if (list.kind == ListKind::kIterator) Fail("prints an iterator; add |list before it");
  const bool tuple = list.kind == ListKind::kTuple;
  out += tuple ? "(" : "[";
  bool first = true;
  for (const Value& item : list.items) {
    if (!first) out += ", ";
    first = false;
    AppendRepr(item, out, budget);
  }
  if (tuple && list.items.size() == 1) out += ",";
  out += tuple ? ")" : "]";
}

void AppendDictRepr(const Dict& dict, std::string& out, Budget& budget) {
  out += "{";
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) out += ", ";
    first = false;
    AppendRepr(key, out, budget);
    out += ": ";
    AppendRepr(value, out, budget);
  }
  out += "}";
}

Value LoopAttribute(const Loop& loop, std::string_view name, Budget& budget) {
  const auto size = static_cast<int64_t>(loop.items->items.size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(size - index);
  if (name == "revindex0") return Value(size - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == size);
  if (name == "length") return Value(size);
  // Only recursive loops, which are not supported, go deeper.
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem" && index > 0) return loop.items->items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items->items[loop.index + 1];
  return Value(Undefined{std::get<Text>(NewText("loop." + std::string(name), budget).data())});
}

// Clamps a slice bound as Python does; None gives `fallback`.
int64_t SliceBound(const Value& bound, int64_t fallback, int64_t size, bool backward) {
  if (bound.IsNone()) return fallback;
  int64_t index = 0;
  if (!bound.AsInteger(index)) Fail("slices with a bound that is not an integer");
  if (index < 0) index += size;
  return std::clamp<int64_t>(index, backward ? -1 : 0, backward ? size - 1 : size);
}

std::vector<size_t> SliceIndices(size_t length, const Value& start, const Value& stop,
                                 const Value& step, Budget& budget) {
  int64_t stride = 1;
  if (!step.IsNone() && !step.AsInteger(stride)) Fail("slices with a step that is not an integer");
  if (stride == 0) Fail("slices with step 0");
  const auto size = static_cast<int64_t>(length);
  const bool backward = stride < 0;
  const int64_t from = SliceBound(start, backward ? size - 1 : 0, size, backward);
  const int64_t to = SliceBound(stop, backward ? -1 : size, size, backward);
  std::vector<size_t> indices;
  budget.Step(1 + length / 8);
  // A stride beyond the length leaves one item, whatever its size.
  stride = std::clamp(stride, -size - 1, size + 1);
  for (int64_t i = from; backward ? i > to : i < to; i += stride) {
    indices.push_back(static_cast<size_t>(i));
  }
  return indices;
}

Value UndefinedOf(std::string name, Budget& budget) {
  return Value(Undefined{std::get<Text>(NewText(std::move(name), budget).data())});
}

// The item at a Python index, or null.
const Value* ItemAt(const List& list, int64_t index) {
  const auto size = static_cast<int64_t>(list.items.size());
  if (index < 0) index += size;
  return index < 0 || index >= size ? nullptr : &list.items[static_cast<size_t>(index)];
}

[[noreturn]] void FailUndefined(const Value& value) {
  const Text& name = std::get<Undefined>(value.data()).name;
  Fail(fmt::format("'{}' is undefined", name == nullptr ? "value" : *name));
}

}  // namespace

bool Value::IsCallable() const {
  return std::holds_alternative<Function>(data_) || std::holds_alternative<const Macro*>(data_) ||
         AsMethod() != nullptr;
}

const std::string* Value::AsText() const {
  if (const Text* text = std::get_if<Text>(&data_)) return text->get();
  const Markup* markup = std::get_if<Markup>(&data_);
  return markup == nullptr ? nullptr : markup->text.get();
}

const List* Value::AsList() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list == nullptr ? nullptr : list->get();
}

const Dict* Value::AsDict() const {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return dict == nullptr ? nullptr : dict->get();
}

const Loop* Value::AsLoop() const {
  const auto* loop = std::get_if<std::shared_ptr<const Loop>>(&data_);
  return loop == nullptr ? nullptr : loop->get();
}

const Method* Value::AsMethod() const {
  const auto* method = std::get_if<std::shared_ptr<const Method>>(&data_);
  return method == nullptr ? nullptr : method->get();
}

Namespace* Value::AsNamespace() const {
  Namespace* const* found = std::get_if<Namespace*>(&data_);
  return found == nullptr ? nullptr : *found;
}

bool Value::AsInteger(int64_t& out) const {
  if (const bool* truth = std::get_if<bool>(&data_)) {
    out = *truth ? 1 : 0;
    return true;
  }
  if (const int64_t* integer = std::get_if<int64_t>(&data_)) {
    out = *integer;
    return true;
  }
  return false;
}

bool Value::AsFloat(double& out) const {
  int64_t integer = 0;
  if (AsInteger(integer)) {
    out = static_cast<double>(integer);
    return true;
  }
  if (const double* number = std::get_if<double>(&data_)) {
    out = *number;
    return true;
  }
  return false;
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    const std::string* text = name.AsText();
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  if (const std::string* text = key.AsText()) return Find(*text);
  double number = 0;
  const bool is_number = key.AsFloat(number);
  for (const auto& [name, value] : items) {
    double other = 0;
    if (is_number && name.AsFloat(other) && other == number) return &value;
    if (key.IsNone() && name.IsNone()) return &value;
  }
  return nullptr;
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : items) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::Set(std::string_view name, Value value) {
  for (auto& [key, old] : items) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  items.emplace_back(name, std::move(value));
}

Value NewText(std::string text, Budget& budget) {
  budget.Text(text.size());
  return Value(std::make_shared<const std::string>(std::move(text)));
}

Value NewMarkup(std::string text, Budget& budget) {
  budget.Text(text.size());
  return Value(Markup{std::make_shared<const std::string>(std::move(text))});
}

Value NewList(std::vector<Value> items, Budget& budget, ListKind kind) {
  budget.List(items.size());
  size_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, DepthOf(item));
  auto list = std::make_shared<List>();
  list->kind = kind;
  list->depth = CheckedDepth(depth + 1, budget);
  list->items = std::move(items);
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value NewDict(std::vector<std::pair<Value, Value>> items, Budget& budget) {
  budget.List(items.size());
  auto dict = std::make_shared<Dict>();
  size_t depth = 0;
  for (auto& [key, value] : items) {
    if (!key.IsText() && !key.IsNumber() && !key.IsNone()) {
      Fail(fmt::format("uses a {} as the key of a dict", TypeName(key)));
    }
    depth = std::max(depth, DepthOf(value));
    budget.Step(1 + dict->items.size() / 8);
    if (const Value* old = dict->Find(key)) {
      const auto same = std::find_if(dict->items.begin(), dict->items.end(),
                                     [old](const auto& item) { return &item.second == old; });
      same->second = std::move(value);
    } else {
      dict->items.emplace_back(std::move(key), std::move(value));
    }
  }
  dict->depth = CheckedDepth(depth + 1, budget);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value NewMethod(const Value& receiver, std::string name, Budget& budget) {
  CheckedDepth(DepthOf(receiver) + 1, budget);
  return Value(std::make_shared<const Method>(Method{receiver, std::move(name)}));
}

std::string_view TypeName(const Value& value) {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "undefined value"; }
    std::string_view operator()(const None&) const { return "none"; }
    std::string_view operator()(bool) const { return "boolean"; }
    std::string_view operator()(int64_t) const { return "integer"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const Text&) const { return "string"; }
    std::string_view operator()(const Markup&) const { return "string"; }
    std::string_view operator()(const std::shared_ptr<const List>&) const { return "list"; }
    std::string_view operator()(const std::shared_ptr<const Dict>&) const { return "mapping"; }
    std::string_view operator()(const std::shared_ptr<const Loop>&) const { return "loop"; }
    std::string_view operator()(const std::shared_ptr<const Method>&) const { return "method"; }
    std::string_view operator()(Namespace*) const { return "namespace"; }
    std::string_view operator()(const Macro*) const { return "macro"; }
    std::string_view operator()(const Function&) const { return "function"; }
  };
  return std::visit(Namer{}, value.data());
}

bool IsTrue(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  double number = 0;
  if (value.AsFloat(number)) return number != 0;
  if (const std::string* text = value.AsText()) return !text->empty();
  if (const List* list = value.AsList()) {
    return list->kind == ListKind::kIterator || !list->items.empty();
  }
  if (const Dict* dict = value.AsDict()) return !dict->items.empty();
  return true;
}

bool AreEqual(const Value& left, const Value& right, Budget& budget) {
  budget.Step();
  int64_t a = 0;
  int64_t b = 0;
  if (left.AsInteger(a) && right.AsInteger(b)) return a == b;
  double x = 0;
  double y = 0;
  if (left.AsFloat(x) && right.AsFloat(y)) return x == y;
  if (left.IsUndefined() || right.IsUndefined()) return left.IsUndefined() && right.IsUndefined();
  if (left.IsNone() || right.IsNone()) return left.IsNone() && right.IsNone();
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    budget.Step(std::min(left.AsText()->size(), right.AsText()->size()) / 64);
    return *left.AsText() == *right.AsText();
  }
  if (left.AsList() != nullptr && right.AsList() != nullptr) {
    return ListsAreEqual(*left.AsList(), *right.AsList(), budget);
  }
  if (left.AsDict() != nullptr && right.AsDict() != nullptr) {
    return DictsAreEqual(*left.AsDict(), *right.AsDict(), budget);
  }
  return left.AsNamespace() != nullptr && left.AsNamespace() == right.AsNamespace();
}

int Compare(const Value& left, const Value& right, Budget& budget) {
  budget.Step();
  int64_t a = 0;
  int64_t b = 0;
  if (left.AsInteger(a) && right.AsInteger(b)) return Sign(a<b, a> b);
  double x = 0;
  double y = 0;
  if (left.AsFloat(x) && right.AsFloat(y)) return Sign(x<y, x> y);
  if (left.AsText() != nullptr && right.AsText() != nullptr) {
    budget.Step(std::min(left.AsText()->size(), right.AsText()->size()) / 64);
    // The order of UTF-8 bytes is the order of code points.
    const int order = left.AsText()->compare(*right.AsText());
    return Sign(order<0, order> 0);
  }
  const List* first = left.AsList();
  const List* second = right.AsList();
  if (first != nullptr && second != nullptr && first->kind == second->kind) {
    for (size_t i = 0; i < std::min(first->items.size(), second->items.size()); ++i) {
      if (AreEqual(first->items[i], second->items[i], budget)) continue;
      return Compare(first->items[i], second->items[i], budget);
    }
    return Sign(first->items.size() < second->items.size(),
                first->items.size() > second->items.size());
  }
  Fail(fmt::format("compares a {} with a {} for order", TypeName(left), TypeName(right)));
}

bool Contains(const Value& container, const Value& item, Budget& budget) {
  if (const std::string* text = container.AsText()) {
    const std::string* part = item.AsText();
    if (part == nullptr) Fail(fmt::format("looks for a {} in a string", TypeName(item)));
    budget.Step(1 + text->size() / 16);
    return Find(*text, *part) != std::string::npos;
  }
  if (const Dict* dict = container.AsDict()) {
    budget.Step(1 + dict->items.size() / 8);
    return dict->Find(item) != nullptr;
  }
  const auto items = ItemsOf(container, budget);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& other) { return AreEqual(item, other, budget); });
}

std::shared_ptr<const List> ItemsOf(const Value& value, Budget& budget) {
  if (const auto* list = std::get_if<std::shared_ptr<const List>>(&value.data())) {
    if ((*list)->kind != ListKind::kIterator) return *list;
    if ((*list)->consumed) return std::make_shared<const List>();
    (*list)->consumed = true;
    return *list;
  }
  std::vector<Value> items;
  if (const std::string* text = value.AsText()) {
    for (const char32_t c : Decode(*text)) {
      std::string one;
      AppendUtf8(c, one);
      items.push_back(NewText(std::move(one), budget));
    }
  } else if (const Dict* dict = value.AsDict()) {
    for (const auto& entry : dict->items) items.push_back(entry.first);
  } else if (!value.IsUndefined()) {
    Fail(fmt::format("takes the items of a {}", TypeName(value)));
  }
  return std::get<std::shared_ptr<const List>>(NewList(std::move(items), budget).data());
}

size_t LengthOf(const Value& value) {
  if (value.IsUndefined()) return 0;
  if (const std::string* text = value.AsText()) return CodePointCount(*text);
  if (const Dict* dict = value.AsDict()) return dict->items.size();
  const List* list = value.AsList();
  if (list != nullptr && list->kind != ListKind::kIterator) return list->items.size();
  if (list != nullptr) Fail("takes the length of an iterator; add |list before it");
  Fail(fmt::format("takes the length of a {}", TypeName(value)));
}

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[400];
  const double size = std::fabs(number);
  const bool exponent = number != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, format);
  std::string text(buffer, result.ptr);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

void AppendText(const Value& value, std::string& out, Budget& budget) {
  budget.Step();
  if (const std::string* text = value.AsText()) {
    budget.Step(text->size() / 16);
    out += *text;
  } else if (!value.IsUndefined()) {
    AppendRepr(value, out, budget);
  }
  CheckLength(out, budget);
}

void AppendRepr(const Value& value, std::string& out, Budget& budget) {
  budget.Step();
  int64_t integer = 0;
  if (value.IsUndefined()) {
    out += "Undefined";
  } else if (value.IsNone()) {
    out += "None";
  } else if (value.IsBool()) {
    out += IsTrue(value) ? "True" : "False";
  } else if (value.AsInteger(integer)) {
    out += std::to_string(integer);
  } else if (const double* number = std::get_if<double>(&value.data())) {
    out += FloatText(*number);
  } else if (const std::string* text = value.AsText()) {
    budget.Step(text->size() / 16);
    out += value.IsMarkup() ? "Markup(" + QuotedText(*text) + ")" : QuotedText(*text);
  } else if (const List* list = value.AsList()) {
    AppendListRepr(*list, out, budget);
  } else if (const Dict* dict = value.AsDict()) {
    AppendDictRepr(*dict, out, budget);
  } else {
    Fail(fmt::format("prints a {}", TypeName(value)));
  }
  CheckLength(out, budget);
}

std::string TextOf(const Value& value, Budget& budget) {
  std::string out;
  AppendText(value, out, budget);
  return out;
}

Value AttributeOf(const Value& value, std::string_view name, Budget& budget) {
  if (value.IsUndefined()) FailUndefined(value);
  if (const Loop* loop = value.AsLoop()) {
    if (HasMethod(value, name)) return NewMethod(value, std::string(name), budget);
    return LoopAttribute(*loop, name, budget);
  }
  if (const Namespace* space = value.AsNamespace()) {
    budget.Step(space->items.size() / 8);
    if (const Value* found = space->Find(name)) return *found;
  }
  if (HasMethod(value, name)) return NewMethod(value, std::string(name), budget);
  if (const Dict* dict = value.AsDict(); dict != nullptr && !IsChangingMethod(name)) {
    budget.Step(dict->items.size() / 8);
    if (const Value* found = dict->Find(name)) return *found;
  }
  return UndefinedOf(std::string(name), budget);
}

Value ItemOf(const Value& value, const Value& key, Budget& budget) {
  if (value.IsUndefined()) FailUndefined(value);
  const std::string* name = key.AsText();
  int64_t index = 0;
  if (const Dict* dict = value.AsDict()) {
    budget.Step(dict->items.size() / 8);
    if (const Value* found = dict->Find(key)) return *found;
  } else if (const List* list = value.AsList(); list != nullptr && key.AsInteger(index)) {
    const bool indexed = list->kind == ListKind::kList || list->kind == ListKind::kTuple;
    const Value* found = indexed ? ItemAt(*list, index) : nullptr;
    if (found != nullptr) return *found;
  } else if (value.AsText() != nullptr && key.AsInteger(index)) {
    const auto size = static_cast<int64_t>(CodePointCount(*value.AsText()));
    if (index < 0) index += size;
    if (index >= 0 && index < size) {
      return SliceOf(value, Value(index), Value(index + 1), Value(None{}), budget);
    }
  }
  if (name != nullptr) return AttributeOf(value, *name, budget);
  return UndefinedOf(TextOf(key, budget), budget);
}

Value SliceOf(const Value& value, const Value& start, const Value& stop, const Value& step,
              Budget& budget) {
  if (value.IsUndefined()) FailUndefined(value);
  if (const std::string* text = value.AsText()) {
    budget.Text(text->size());
    const std::u32string code_points = Decode(*text);
    std::u32string taken;
    for (const size_t i : SliceIndices(code_points.size(), start, stop, step, budget)) {
      taken.push_back(code_points[i]);
    }
    return NewText(Encode(taken), budget);
  }
  const List* list = value.AsList();
  if (list == nullptr || list->kind == ListKind::kView || list->kind == ListKind::kIterator) {
    Fail(fmt::format("slices a {}", TypeName(value)));
  }
  std::vector<Value> taken;
  for (const size_t i : SliceIndices(list->items.size(), start, stop, step, budget)) {
    taken.push_back(list->items[i]);
  }
  return NewList(std::move(taken), budget, list->kind);
}

}  // namespace kvant::jinja
