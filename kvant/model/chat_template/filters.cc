#include "kvant/model/chat_template/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "kvant/model/chat_template/arguments.h"
#include "kvant/model/chat_template/json_text.h"
#include "kvant/model/chat_template/methods.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

using Filter = Value (*)(const Value&, ArgumentReader&, Budget&);

// `item.a.0.b` for a dotted path; the item itself for none.
Value FollowPath(const Value& item, const Value* path, const Value* fallback, Budget& budget) {
  if (path == nullptr || path->IsNone()) return item;
  const std::string* text = path->AsText();
  if (text == nullptr) return ItemOf(item, *path, budget);
  const std::string dot = ".";
  Value found = item;
  for (const std::string& part : Split(*text, &dot, -1, false)) {
    const bool is_index =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    found =
        ItemOf(found, is_index ? Value(int64_t{std::stol(part)}) : NewText(part, budget), budget);
    if (found.IsUndefined() && fallback != nullptr && !fallback->IsNone()) found = *fallback;
  }
  return found;
}

// Strings compare without regard to case unless asked otherwise.
Value SortKey(const Value& item, bool case_sensitive, Budget& budget) {
  if (case_sensitive || item.AsText() == nullptr) return item;
  return NewText(Lower(*item.AsText()), budget);
}

Value FilterAbs(const Value& input, ArgumentReader& arguments, Budget&) {
  arguments.Finish();
  int64_t integer = 0;
  double number = 0;
  if (input.AsInteger(integer) && integer != std::numeric_limits<int64_t>::min()) {
    return Value(integer < 0 ? -integer : integer);
  }
  if (!input.AsFloat(number)) Fail(fmt::format("abs takes a number, not a {}", TypeName(input)));
  return Value(std::fabs(number));
}

Value FilterAttribute(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const std::string& name = arguments.RequiredText("name");
  arguments.Finish();
  if (HasMethod(input, name)) return NewMethod(input, name, budget);
  return input.AsDict() != nullptr ? Value() : AttributeOf(input, name, budget);
}

Value FilterCapitalize(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return NewText(Capitalize(TextOf(input, budget)), budget);
}

Value FilterDefault(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const Value* fallback = arguments.Next("default_value");
  const bool or_false = arguments.Truth("boolean", false);
  arguments.Finish();
  if (!input.IsUndefined() && !(or_false && !IsTrue(input))) return input;
  return fallback == nullptr ? NewText("", budget) : *fallback;
}

Value FilterDictSort(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const bool case_sensitive = arguments.Truth("case_sensitive", false);
  const std::string* by = arguments.OptionalText("by");
  const bool reverse = arguments.Truth("reverse", false);
  arguments.Finish();
  const Dict* dict = input.AsDict();
  if (dict == nullptr) Fail(fmt::format("dictsort takes a mapping, not a {}", TypeName(input)));
  const bool by_value = by != nullptr && *by == "value";
  std::vector<std::pair<Value, const std::pair<Value, Value>*>> keyed;
  for (const auto& item : dict->items) {
    keyed.emplace_back(SortKey(by_value ? item.second : item.first, case_sensitive, budget), &item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    return reverse ? Compare(right.first, left.first, budget) < 0
                   : Compare(left.first, right.first, budget) < 0;
  });
  std::vector<Value> items;
  for (const auto& [key, item] : keyed) {
    items.push_back(NewList({item->first, item->second}, budget, ListKind::kTuple));
  }
  return NewList(std::move(items), budget);
}

Value FilterEscape(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return input.IsMarkup() ? input : NewMarkup(EscapeHtml(TextOf(input, budget)), budget);
}

Value FilterFirst(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  const auto items = ItemsOf(input, budget);
  return items->items.empty() ? Value() : items->items.front();
}

bool ReadFloat(std::string_view text, double& out) {
  std::string digits(Strip(text, nullptr, Side::kBoth));
  std::erase(digits, '_');
  const size_t sign = digits.starts_with('+') ? 1 : 0;
  const auto* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data() + sign, end, out);
  if (result.ec == std::errc::result_out_of_range) {
    out = std::numeric_limits<double>::infinity();
    return true;
  }
  return result.ec == std::errc() && result.ptr == end && !digits.empty();
}

bool ReadInteger(std::string_view text, int base, int64_t& out) {
  std::string digits(Strip(text, nullptr, Side::kBoth));
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  const std::string prefix = Lower(digits.substr(sign, 2));
  const bool prefixed = (base == 16 && prefix == "0x") || (base == 8 && prefix == "0o") ||
                        (base == 2 && prefix == "0b");
  if (prefixed) digits.erase(sign, 2);
  const auto* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, out, base);
  return result.ec == std::errc() && result.ptr == end && !digits.empty();
}

bool TruncateToInteger(double number, int64_t& out) {
  if (!(std::fabs(number) < 9.2e18)) return false;
  out = static_cast<int64_t>(number);
  return true;
}

Value FilterFloat(const Value& input, ArgumentReader& arguments, Budget&) {
  const Value* fallback = arguments.Next("default");
  arguments.Finish();
  double number = 0;
  if (input.AsFloat(number)) return Value(number);
  if (input.AsText() != nullptr && ReadFloat(*input.AsText(), number)) return Value(number);
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Value FilterFormat(const Value& input, ArgumentReader& arguments, Budget& budget) {
  std::vector<Value> values;
  while (const Value* value = arguments.Next("")) values.push_back(*value);
  arguments.Finish();
  return PercentFormat(TextOf(input, budget), NewList(std::move(values), budget, ListKind::kTuple),
                       budget);
}

Value FilterGroupBy(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const Value path = arguments.Required("attribute");
  const Value* fallback = arguments.Next("default");
  const bool case_sensitive = arguments.Truth("case_sensitive", false);
  arguments.Finish();
  struct Keyed {
    Value key;
    Value grouper;
    Value item;
  };
  std::vector<Keyed> keyed;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    const Value grouper = FollowPath(item, &path, fallback, budget);
    keyed.push_back({SortKey(grouper, case_sensitive, budget), grouper, item});
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& left, const Keyed& right) {
    return Compare(left.key, right.key, budget) < 0;
  });
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const size_t first = i;
    for (; i < keyed.size() && AreEqual(keyed[i].key, keyed[first].key, budget); ++i) {
      members.push_back(keyed[i].item);
    }
    groups.push_back(NewList({keyed[first].grouper, NewList(std::move(members), budget)}, budget,
                             ListKind::kTuple));
  }
  return NewList(std::move(groups), budget);
}

Value FilterIndent(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const Value* width = arguments.Next("width");
  const bool first = arguments.Truth("first", false);
  const bool blank = arguments.Truth("blank", false);
  arguments.Finish();
  std::string indention(4, ' ');
  int64_t columns = 0;
  if (width != nullptr && width->AsText() != nullptr) {
    indention = *width->AsText();
  } else if (width != nullptr && width->AsInteger(columns)) {
    columns = std::clamp<int64_t>(columns, 0, 1000);
    indention.assign(static_cast<size_t>(columns), ' ');
  }
  // Python adds a newline first, so that a last empty line counts.
  const auto lines = SplitLines(TextOf(input, budget) + "\n");
  std::string out = first ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n";
    if (i > 0 && (blank || !lines[i].empty())) out += indention;
    out += lines[i];
    budget.Step(1 + (indention.size() + lines[i].size()) / 16);
    if (out.size() > budget.limits().text_bytes) budget.Text(out.size());
  }
  return NewText(std::move(out), budget);
}

Value FilterInteger(const Value& input, ArgumentReader& arguments, Budget&) {
  const Value* fallback = arguments.Next("default");
  const int64_t base = arguments.Integer("base", 10);
  arguments.Finish();
  if (base < 2 || base > 36) Fail("int takes a base from 2 to 36");
  int64_t integer = 0;
  double number = 0;
  const std::string* text = input.AsText();
  if (input.AsInteger(integer)) return Value(integer);
  if (text != nullptr && ReadInteger(*text, static_cast<int>(base), integer)) return Value(integer);
  const bool read = text != nullptr ? ReadFloat(*text, number) : input.AsFloat(number);
  if (read && TruncateToInteger(number, integer)) return Value(integer);
  return fallback == nullptr ? Value(int64_t{0}) : *fallback;
}

Value FilterItems(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  std::vector<Value> items;
  if (const Dict* dict = input.AsDict()) {
    for (const auto& [key, value] : dict->items) {
      items.push_back(NewList({key, value}, budget, ListKind::kTuple));
    }
  } else if (!input.IsUndefined()) {
    Fail(fmt::format("items takes a mapping, not a {}", TypeName(input)));
  }
  return NewList(std::move(items), budget, ListKind::kIterator);
}

Value FilterJoin(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const Value* given = arguments.Next("d");
  const Value* path = arguments.Next("attribute");
  arguments.Finish();
  const std::string separator = given == nullptr ? "" : TextOf(*given, budget);
  std::string out;
  bool first = true;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    if (!first) out += separator;
    first = false;
    budget.Step(separator.size() / 16);
    AppendText(FollowPath(item, path, nullptr, budget), out, budget);
  }
  return NewText(std::move(out), budget);
}

Value FilterLast(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  const List* list = input.AsList();
  if (list != nullptr && list->kind == ListKind::kIterator) {
    Fail("last takes no iterator; add |list before it");
  }
  const auto items = ItemsOf(input, budget);
  return items->items.empty() ? Value() : items->items.back();
}

Value FilterLength(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  if (input.AsText() != nullptr) budget.Step(input.AsText()->size() / 16);
  return Value(static_cast<int64_t>(LengthOf(input)));
}

Value FilterList(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return NewList(ItemsOf(input, budget)->items, budget);
}

Value FilterLower(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return NewText(Lower(TextOf(input, budget)), budget);
}

// The least item if sign is 1, the greatest if it is -1; the first of equals.
Value Extreme(const Value& input, ArgumentReader& arguments, Budget& budget, int sign) {
  const bool case_sensitive = arguments.Truth("case_sensitive", false);
  const Value* path = arguments.Next("attribute");
  arguments.Finish();
  Value best;
  Value best_key;
  bool first = true;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    Value key = SortKey(FollowPath(item, path, nullptr, budget), case_sensitive, budget);
    if (!first && Compare(key, best_key, budget) * sign >= 0) continue;
    first = false;
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Value FilterMax(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Extreme(input, arguments, budget, -1);
}

Value FilterMin(const Value& input, ArgumentReader& arguments, Budget& budget) {
  return Extreme(input, arguments, budget, 1);
}

Value FilterReplace(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const std::string from = TextOf(arguments.Required("old"), budget);
  const std::string to = TextOf(arguments.Required("new"), budget);
  const int64_t count = arguments.Integer("count", -1);
  arguments.Finish();
  const std::string text = TextOf(input, budget);
  return NewText(Replace(text, from, to, count, budget.limits().text_bytes), budget);
}

Value FilterReverse(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  if (const std::string* text = input.AsText()) {
    budget.Text(text->size());
    std::u32string code_points = Decode(*text);
    std::reverse(code_points.begin(), code_points.end());
    return NewText(Encode(code_points), budget);
  }
  std::vector<Value> items = ItemsOf(input, budget)->items;
  std::reverse(items.begin(), items.end());
  return NewList(std::move(items), budget, ListKind::kIterator);
}

Value FilterRound(const Value& input, ArgumentReader& arguments, Budget&) {
  const int64_t precision = std::clamp<int64_t>(arguments.Integer("precision", 0), -300, 300);
  const std::string* given = arguments.OptionalText("method");
  arguments.Finish();
  const std::string method = given == nullptr ? "common" : *given;
  int64_t integer = 0;
  double number = 0;
  if (!input.AsFloat(number)) Fail(fmt::format("round takes a number, not a {}", TypeName(input)));
  if (method != "common") {
    if (method != "ceil" && method != "floor") Fail("round takes 'common', 'ceil' or 'floor'");
    const double scale = std::pow(10.0, static_cast<double>(precision));
    return Value((method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) /
                 scale);
  }
  if (precision >= 0 && input.AsInteger(integer)) return Value(integer);
  if (!std::isfinite(number)) return input;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return Value(std::nearbyint(number / scale) * scale);
  }
  // Decimal formatting rounds the exact value, ties to even, as Python does.
  const std::string text = fmt::format("{:.{}f}", number, precision);
  std::from_chars(text.data(), text.data() + text.size(), number);
  return Value(number);
}

Value FilterSafe(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return NewMarkup(TextOf(input, budget), budget);
}

Value FilterSort(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const bool reverse = arguments.Truth("reverse", false);
  const bool case_sensitive = arguments.Truth("case_sensitive", false);
  const Value* path = arguments.Next("attribute");
  arguments.Finish();
  const std::string comma = ",";
  std::vector<Value> paths;
  if (path != nullptr && path->AsText() != nullptr) {
    for (auto& part : Split(*path->AsText(), &comma, -1, false)) {
      paths.push_back(NewText(std::move(part), budget));
    }
  } else {
    paths.push_back(path == nullptr ? Value(None{}) : *path);
  }
  std::vector<std::pair<Value, Value>> keyed;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    std::vector<Value> keys;
    for (const Value& one : paths) {
      keys.push_back(SortKey(FollowPath(item, &one, nullptr, budget), case_sensitive, budget));
    }
    keyed.emplace_back(NewList(std::move(keys), budget), item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    return reverse ? Compare(right.first, left.first, budget) < 0
                   : Compare(left.first, right.first, budget) < 0;
  });
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return NewList(std::move(items), budget);
}

Value FilterString(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return input.AsText() != nullptr ? input : NewText(TextOf(input, budget), budget);
}

Value FilterSum(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const Value* path = arguments.Next("attribute");
  const Value* start = arguments.Next("start");
  arguments.Finish();
  int64_t integers = 0;
  double number = 0;
  bool exact = true;
  const auto add = [&](const Value& item) {
    int64_t integer = 0;
    double part = 0;
    if (!item.AsFloat(part)) Fail(fmt::format("sum takes numbers, not a {}", TypeName(item)));
    number += part;
    exact = exact && item.AsInteger(integer);
    if (exact && __builtin_add_overflow(integers, integer, &integers)) Fail("sum overflows");
  };
  if (start != nullptr) add(*start);
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    add(FollowPath(item, path, nullptr, budget));
  }
  return exact ? Value(integers) : Value(number);
}

// Words start after white space, a hyphen or an opening bracket.
Value FilterTitle(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  std::string out;
  std::u32string word;
  const auto flush = [&] {
    if (word.empty()) return;
    out += Upper(Encode(word.substr(0, 1))) + Lower(Encode(word.substr(1)));
    word.clear();
  };
  const std::string text = TextOf(input, budget);
  budget.Step(text.size());  // Unicode's tables cost more than a copy
  for (const char32_t c : Decode(text)) {
    if (IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush();
      AppendUtf8(c, out);
    } else {
      word.push_back(c);
    }
  }
  flush();
  return NewText(std::move(out), budget);
}

Value FilterToJson(const Value& input, ArgumentReader& arguments, Budget& budget) {
  JsonStyle style;
  style.ascii_only = arguments.Truth("ensure_ascii", false);
  const Value* indent = arguments.Next("indent");
  const Value* separators = arguments.Next("separators");
  style.sort_keys = arguments.Truth("sort_keys", false);
  arguments.Finish();
  if (indent != nullptr && !indent->IsNone()) {
    style.indented = true;
    style.item_separator = ",";
    int64_t columns = 0;
    if (indent->AsInteger(columns)) {
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(columns, 0, 100)), ' ');
    } else {
      style.indent = TextOf(*indent, budget).substr(0, 100);
    }
  }
  const List* pair = separators == nullptr ? nullptr : separators->AsList();
  if (pair != nullptr && pair->items.size() == 2) {
    style.item_separator = TextOf(pair->items[0], budget);
    style.key_separator = TextOf(pair->items[1], budget);
  }
  return NewText(JsonText(input, style, budget), budget);
}

Value FilterTrim(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const std::string* characters = arguments.OptionalText("chars");
  arguments.Finish();
  const std::string text = TextOf(input, budget);
  std::string stripped(Strip(text, characters, Side::kBoth));
  return input.IsMarkup() ? NewMarkup(std::move(stripped), budget)
                          : NewText(std::move(stripped), budget);
}

Value FilterUnique(const Value& input, ArgumentReader& arguments, Budget& budget) {
  const bool case_sensitive = arguments.Truth("case_sensitive", false);
  const Value* path = arguments.Next("attribute");
  arguments.Finish();
  std::vector<Value> seen;
  std::vector<Value> items;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    Value key = SortKey(FollowPath(item, path, nullptr, budget), case_sensitive, budget);
    const bool known = std::any_of(
        seen.begin(), seen.end(), [&](const Value& other) { return AreEqual(key, other, budget); });
    if (known) continue;
    seen.push_back(std::move(key));
    items.push_back(item);
  }
  return NewList(std::move(items), budget, ListKind::kIterator);
}

Value FilterUpper(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  return NewText(Upper(TextOf(input, budget)), budget);
}

Value FilterWordCount(const Value& input, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  const auto words = Split(TextOf(input, budget), nullptr, -1, false);
  budget.List(words.size());
  return Value(static_cast<int64_t>(words.size()));
}

Arguments Rest(const Arguments& arguments, size_t skipped) {
  Arguments rest;
  for (size_t i = skipped; i < arguments.positional.size(); ++i) {
    rest.positional.push_back(arguments.positional[i]);
  }
  rest.named = arguments.named;
  return rest;
}

Value ApplyMap(const Value& input, const Arguments& arguments, Budget& budget) {
  std::vector<Value> items;
  // Jinja looks at the arguments, and at the type, of what is not empty.
  if (!IsTrue(input)) return NewList(std::move(items), budget, ListKind::kIterator);
  if (arguments.positional.empty()) {
    ArgumentReader reader("map", arguments);
    const Value path = reader.Required("attribute");
    const Value* fallback = reader.Next("default");
    reader.Finish();
    const auto taken = ItemsOf(input, budget);
    for (const Value& item : taken->items) {
      items.push_back(FollowPath(item, &path, fallback, budget));
    }
    return NewList(std::move(items), budget, ListKind::kIterator);
  }
  const std::string* name = arguments.positional[0].AsText();
  if (name == nullptr || !IsFilter(*name)) Fail("map names a filter that is not known");
  // A filter that applies filters would nest without a bound.
  if (*name == "map") Fail("map cannot apply itself");
  const Arguments rest = Rest(arguments, 1);
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    items.push_back(ApplyFilter(*name, item, rest, budget));
  }
  return NewList(std::move(items), budget, ListKind::kIterator);
}

// select, reject, selectattr and rejectattr.
Value ApplySelect(std::string_view filter, const Value& input, const Arguments& arguments,
                  Budget& budget) {
  if (!IsTrue(input)) return NewList({}, budget, ListKind::kIterator);
  const bool wanted = filter.starts_with("select");
  const bool by_attribute = filter.ends_with("attr");
  if (by_attribute && arguments.positional.empty()) {
    Fail(fmt::format("{} lacks the name of an attribute", filter));
  }
  const Value* path = by_attribute ? &arguments.positional[0] : nullptr;
  const size_t test_at = by_attribute ? 1 : 0;
  const std::string* test = nullptr;
  if (arguments.positional.size() > test_at) {
    test = arguments.positional[test_at].AsText();
    if (test == nullptr || !IsTest(*test)) {
      Fail(fmt::format("{} names a test that is not known", filter));
    }
  }
  const Arguments rest = Rest(arguments, test_at + 1);
  std::vector<Value> items;
  const auto taken = ItemsOf(input, budget);
  for (const Value& item : taken->items) {
    const Value tested = FollowPath(item, path, nullptr, budget);
    budget.Step();
    const bool holds = test == nullptr ? IsTrue(tested) : ApplyTest(*test, tested, rest, budget);
    if (holds == wanted) items.push_back(item);
  }
  return NewList(std::move(items), budget, ListKind::kIterator);
}

struct FilterEntry {
  std::string_view name;
  Filter apply;  // null for those that apply other filters or tests
};

constexpr auto kFilters = std::to_array<FilterEntry>({
    {"abs", FilterAbs},
    {"attr", FilterAttribute},
    {"capitalize", FilterCapitalize},
    {"count", FilterLength},
    {"d", FilterDefault},
    {"default", FilterDefault},
    {"dictsort", FilterDictSort},
    {"e", FilterEscape},
    {"escape", FilterEscape},
    {"first", FilterFirst},
    {"float", FilterFloat},
    {"format", FilterFormat},
    {"groupby", FilterGroupBy},
    {"indent", FilterIndent},
    {"int", FilterInteger},
    {"items", FilterItems},
    {"join", FilterJoin},
    {"last", FilterLast},
    {"length", FilterLength},
    {"list", FilterList},
    {"lower", FilterLower},
    {"map", nullptr},
    {"max", FilterMax},
    {"min", FilterMin},
    {"reject", nullptr},
    {"rejectattr", nullptr},
    {"replace", FilterReplace},
    {"reverse", FilterReverse},
    {"round", FilterRound},
    {"safe", FilterSafe},
    {"select", nullptr},
    {"selectattr", nullptr},
    {"sort", FilterSort},
    {"string", FilterString},
    {"sum", FilterSum},
    {"title", FilterTitle},
    {"tojson", FilterToJson},
    {"trim", FilterTrim},
    {"unique", FilterUnique},
    {"upper", FilterUpper},
    {"wordcount", FilterWordCount},
});

const FilterEntry* FindFilter(std::string_view name) {
  const auto* found = std::find_if(kFilters.begin(), kFilters.end(),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found;
}

}  // namespace

bool IsFilter(std::string_view name) { return FindFilter(name) != nullptr; }

Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Budget& budget) {
  budget.Step();
  const FilterEntry* filter = FindFilter(name);
  if (filter == nullptr) Fail(fmt::format("uses the filter '{}', which is not known", name));
  if (filter->apply == nullptr) {
    return name == "map" ? ApplyMap(input, arguments, budget)
                         : ApplySelect(name, input, arguments, budget);
  }
  ArgumentReader reader(name, arguments);
  return filter->apply(input, reader, budget);
}

}  // namespace kvant::jinja
