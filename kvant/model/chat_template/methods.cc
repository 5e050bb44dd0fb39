#include "kvant/model/chat_template/methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kvant/model/chat_template/arguments.h"
#include "kvant/model/chat_template/text.h"

namespace kvant::jinja {
namespace {

using TextMethod = Value (*)(const std::string&, ArgumentReader&, Budget&);

size_t CheckedIndex(int64_t index, size_t size) {
  const auto length = static_cast<int64_t>(size);
  if (index < 0) index = std::max<int64_t>(0, index + length);
  return static_cast<size_t>(std::min(index, length));
}

template <Side side>
Value StripMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string* characters = arguments.OptionalText("chars");
  arguments.Finish();
  return NewText(std::string(Strip(text, characters, side)), budget);
}

Value TextList(std::vector<std::string> parts, Budget& budget) {
  std::vector<Value> items;
  for (auto& part : parts) items.push_back(NewText(std::move(part), budget));
  return NewList(std::move(items), budget);
}

template <bool from_right>
Value SplitMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string* separator = arguments.OptionalText("sep");
  const int64_t max_splits = arguments.Integer("maxsplit", -1);
  arguments.Finish();
  if (separator != nullptr && separator->empty()) Fail("splits a string at an empty separator");
  budget.Text(text.size());
  budget.List(separator == nullptr ? 0 : CountOf(text, *separator));
  return TextList(Split(text, separator, max_splits, from_right), budget);
}

Value SplitLinesMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const bool keep_ends = arguments.Truth("keepends", false);
  arguments.Finish();
  return TextList(SplitLines(text, keep_ends), budget);
}

template <bool from_right>
Value PartitionMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string separator = arguments.RequiredText("sep");
  arguments.Finish();
  if (separator.empty()) Fail("splits a string at an empty separator");
  std::vector<std::string> parts = Split(text, &separator, 1, from_right);
  if (parts.size() == 2) {
    parts.insert(parts.begin() + 1, separator);
  } else {
    parts = from_right ? std::vector<std::string>{"", "", text}
                       : std::vector<std::string>{text, "", ""};
  }
  std::vector<Value> items;
  for (auto& part : parts) items.push_back(NewText(std::move(part), budget));
  return NewList(std::move(items), budget, ListKind::kTuple);
}

// The part of `text` that start and stop arguments leave, as Python's searches take them; false if
// start lies beyond the end.
bool SearchRange(const std::string& text, ArgumentReader& arguments, Budget& budget,
                 std::string& part, size_t& start) {
  const int64_t from = arguments.Integer("start", 0);
  const int64_t to = arguments.Integer("end", std::numeric_limits<int64_t>::max());
  arguments.Finish();
  budget.Text(text.size());
  const std::u32string code_points = Decode(text);
  const auto size = static_cast<int64_t>(code_points.size());
  start = CheckedIndex(from, code_points.size());
  const size_t stop = to >= size ? code_points.size() : CheckedIndex(to, code_points.size());
  if (from > size || start > stop) return false;
  part = Encode(std::u32string_view(code_points).substr(start, stop - start));
  return true;
}

template <bool at_end>
Value AffixMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const Value& affix = arguments.Required("prefix");
  std::string part;
  size_t start = 0;
  if (!SearchRange(text, arguments, budget, part, start)) return Value(false);
  const auto matches = [&part](const Value& candidate) {
    if (candidate.AsText() == nullptr) Fail("startswith and endswith take strings");
    return at_end ? part.ends_with(*candidate.AsText()) : part.starts_with(*candidate.AsText());
  };
  const List* list = affix.AsList();
  if (list == nullptr || list->kind != ListKind::kTuple) return Value(matches(affix));
  return Value(std::any_of(list->items.begin(), list->items.end(), matches));
}

template <bool from_right, bool must_exist>
Value FindMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string wanted = arguments.RequiredText("sub");
  std::string part;
  size_t start = 0;
  size_t found = std::string::npos;
  if (SearchRange(text, arguments, budget, part, start)) {
    found = from_right ? FindLast(part, wanted) : Find(part, wanted);
  }
  if (found != std::string::npos) {
    const size_t index = start + CodePointCount(std::string_view(part).substr(0, found));
    return Value(static_cast<int64_t>(index));
  }
  if (must_exist) Fail("index does not find its string");
  return Value(int64_t{-1});
}

Value CountMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string wanted = arguments.RequiredText("sub");
  std::string part;
  size_t start = 0;
  if (!SearchRange(text, arguments, budget, part, start)) return Value(int64_t{0});
  return Value(static_cast<int64_t>(CountOf(part, wanted)));
}

Value ReplaceMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string& from = arguments.RequiredText("old");
  const std::string& to = arguments.RequiredText("new");
  const int64_t count = arguments.Integer("count", -1);
  arguments.Finish();
  budget.Text(text.size());
  return NewText(Replace(text, from, to, count, budget.limits().text_bytes), budget);
}

Value JoinMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const auto items = ItemsOf(arguments.Required("iterable"), budget);
  arguments.Finish();
  std::string out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (items->items[i].AsText() == nullptr) Fail("join of a string takes a list of strings");
    if (i > 0) out += text;
    budget.Step(text.size() / 16);
    AppendText(items->items[i], out, budget);
  }
  return NewText(std::move(out), budget);
}

template <std::string (*change)(std::string_view)>
Value ChangeMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  budget.Text(text.size());
  budget.Step(text.size());  // Unicode's tables cost more than a copy
  return NewText(change(text), budget);
}

template <bool (*holds)(char32_t)>
Value EveryMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  budget.Text(text.size());
  const std::u32string code_points = Decode(text);
  return Value(!text.empty() && std::all_of(code_points.begin(), code_points.end(), holds));
}

template <bool (*holds)(std::string_view)>
Value CaseMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  arguments.Finish();
  budget.Text(text.size());
  return Value(holds(text));
}

bool IsAlphanumeric(char32_t c) { return IsAlphabetic(c) || IsDigit(c); }

template <bool at_end>
Value RemoveAffixMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const std::string& affix = arguments.RequiredText(at_end ? "suffix" : "prefix");
  arguments.Finish();
  const bool has = at_end ? text.ends_with(affix) : text.starts_with(affix);
  if (!has) return NewText(text, budget);
  return NewText(at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()),
                 budget);
}

// align: -1 left, 0 centre, 1 right.
std::string Padded(const std::string& text, int64_t width, const std::string& fill, int align,
                   Budget& budget) {
  const auto length = static_cast<int64_t>(CodePointCount(text));
  if (width <= length) return text;
  if (width > static_cast<int64_t>(budget.limits().text_bytes)) Fail("pads a string too far");
  const int64_t total = width - length;
  // Python's centre puts the odd space left where the width is odd.
  const int64_t left = align < 0 ? 0 : (align > 0 ? total : total / 2 + (total & width & 1));
  std::string out;
  budget.Text(static_cast<size_t>(total) * fill.size() + text.size());
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < total; ++i) out += fill;
  return out;
}

template <int align>
Value PadMethod(const std::string& text, ArgumentReader& arguments, Budget& budget) {
  const int64_t width = arguments.Integer("width", 0);
  const std::string* given = arguments.OptionalText("fillchar");
  arguments.Finish();
  const std::string fill = given == nullptr ? " " : *given;
  if (CodePointCount(fill) != 1) Fail("pads a string with other than one character");
  return NewText(Padded(text, width, fill, align, budget), budget);
}

// Chooses the arguments of a format's fields, which are either all numbered or all in order.
class FormatFields {
 public:
  explicit FormatFields(const Arguments& arguments) : arguments_(arguments) {}

  const Value& Choose(std::string_view field) {
    const bool is_index =
        std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (is_index) return ChooseIndex(field);
    for (const auto& [name, value] : arguments_.named) {
      if (name == field) return value;
    }
    Fail("format lacks a named argument");
  }

 private:
  const Value& ChooseIndex(std::string_view digits) {
    (digits.empty() ? in_order_ : numbered_) = true;
    if (in_order_ && numbered_) Fail("format mixes numbered fields with others");
    size_t index = digits.empty() ? next_++ : 0;
    for (const char c : digits) index = std::min<size_t>(index * 10 + size_t(c - '0'), 1000000);
    if (index >= arguments_.positional.size()) Fail("format has fewer arguments than fields");
    return arguments_.positional[index];
  }

  const Arguments& arguments_;
  size_t next_ = 0;
  bool in_order_ = false;
  bool numbered_ = false;
};

// Python's format specification, as far as it is needed: [0][width][.precision][d|f|s].
std::string FormatSpecified(const Value& value, std::string_view specification, Budget& budget) {
  if (specification.empty()) return TextOf(value, budget);
  size_t i = 0;
  const bool zeros = specification[0] == '0';
  size_t width = 0;
  size_t precision = 6;
  const auto digits = [&](size_t& number) {
    for (number = 0; i < specification.size() && specification[i] >= '0' && specification[i] <= '9';
         ++i) {
      number = std::min<size_t>(number * 10 + size_t(specification[i] - '0'), 1000);
    }
  };
  digits(width);
  if (i < specification.size() && specification[i] == '.') {
    ++i;
    digits(precision);
  }
  const std::string_view type = specification.substr(i);
  double number = 0;
  int64_t integer = 0;
  if (type == "f" && value.AsFloat(number)) {
    return zeros ? fmt::format("{:0{}.{}f}", number, width, std::min<size_t>(precision, 300))
                 : fmt::format("{:{}.{}f}", number, width, std::min<size_t>(precision, 300));
  }
  if ((type == "d" || type.empty()) && value.AsInteger(integer)) {
    return zeros ? fmt::format("{:0{}}", integer, width) : fmt::format("{:{}}", integer, width);
  }
  if ((type == "s" || type.empty()) && value.AsText() != nullptr && precision == 6) {
    return Padded(*value.AsText(), static_cast<int64_t>(width), " ", -1, budget);
  }
  Fail("format has a field that is not supported");
}

std::string BraceFormat(const std::string& format, const Arguments& arguments, Budget& budget) {
  std::string out;
  FormatFields fields(arguments);
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    const size_t end = format.find('}', i);
    if (c == '}' || end == std::string::npos) Fail("format has an unmatched brace");
    const std::string_view inside = std::string_view(format).substr(i + 1, end - i - 1);
    const size_t colon = inside.find(':');
    const Value& value = fields.Choose(inside.substr(0, colon));
    out += FormatSpecified(value, colon == std::string_view::npos ? "" : inside.substr(colon + 1),
                           budget);
    i = end;
    budget.Text(out.size());
  }
  return out;
}

struct TextMethodEntry {
  std::string_view name;
  TextMethod call;
};

constexpr auto kTextMethods = std::to_array<TextMethodEntry>({
    {"capitalize", ChangeMethod<Capitalize>},
    {"casefold", ChangeMethod<Lower>},
    {"center", PadMethod<0>},
    {"count", CountMethod},
    {"endswith", AffixMethod<true>},
    {"find", FindMethod<false, false>},
    {"index", FindMethod<false, true>},
    {"isalnum", EveryMethod<IsAlphanumeric>},
    {"isalpha", EveryMethod<IsAlphabetic>},
    {"isdecimal", EveryMethod<IsDigit>},
    {"isdigit", EveryMethod<IsDigit>},
    {"islower", CaseMethod<IsLower>},
    {"isnumeric", EveryMethod<IsDigit>},
    {"isspace", EveryMethod<IsSpace>},
    {"isupper", CaseMethod<IsUpper>},
    {"join", JoinMethod},
    {"ljust", PadMethod<-1>},
    {"lower", ChangeMethod<Lower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<false>},
    {"removesuffix", RemoveAffixMethod<true>},
    {"replace", ReplaceMethod},
    {"rfind", FindMethod<true, false>},
    {"rindex", FindMethod<true, true>},
    {"rjust", PadMethod<1>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"title", ChangeMethod<Title>},
    {"upper", ChangeMethod<Upper>},
});

const TextMethodEntry* FindTextMethod(std::string_view name) {
  const auto* found =
      std::find_if(kTextMethods.begin(), kTextMethods.end(),
                   [&](const TextMethodEntry& entry) { return entry.name == name; });
  return found == kTextMethods.end() ? nullptr : found;
}

Value Pair(const Value& key, const Value& value, Budget& budget) {
  return NewList({key, value}, budget, ListKind::kTuple);
}

Value CallDictMethod(const Value& receiver, const std::string& name, ArgumentReader& arguments,
                     Budget& budget) {
  const Dict& dict = *receiver.AsDict();
  if (name == "copy") {
    arguments.Finish();
    return receiver;
  }
  if (name == "get") {
    const Value& key = arguments.Required("key");
    const Value* fallback = arguments.Next("default");
    arguments.Finish();
    budget.Step(1 + dict.items.size() / 8);
    if (const Value* found = dict.Find(key)) return *found;
    return fallback == nullptr ? Value(None{}) : *fallback;
  }
  arguments.Finish();
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    items.push_back(name == "keys" ? key : (name == "values" ? value : Pair(key, value, budget)));
  }
  return NewList(std::move(items), budget, ListKind::kView);
}

Value CallListMethod(const List& list, const std::string& name, ArgumentReader& arguments,
                     Budget& budget) {
  if (name == "copy") {
    arguments.Finish();
    return NewList(list.items, budget);
  }
  const Value& wanted = arguments.Required("value");
  arguments.Finish();
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (!AreEqual(list.items[i], wanted, budget)) continue;
    if (name == "index") return Value(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") Fail("index does not find its item");
  return Value(count);
}

// One conversion of a %-format, such as %-5s or %.2f.
struct Conversion {
  bool left = false;
  bool zeros = false;
  size_t width = 0;
  size_t precision = 6;
  bool has_precision = false;
  char type = 's';
};

Conversion ReadConversion(const std::string& format, size_t& i) {
  Conversion conversion;
  const auto at = [&] { return i < format.size() ? format[i] : '\0'; };
  const auto number = [&](size_t& out) {
    for (out = 0; at() >= '0' && at() <= '9'; ++i) {
      out = std::min<size_t>(out * 10 + static_cast<size_t>(at() - '0'), 1000);
    }
  };
  for (; at() == '-' || at() == '0'; ++i) (at() == '-' ? conversion.left : conversion.zeros) = true;
  number(conversion.width);
  if (at() == '.') {
    ++i;
    conversion.has_precision = true;
    number(conversion.precision);
  }
  conversion.type = at();
  return conversion;
}

std::string Converted(const Conversion& conversion, const Value& value, Budget& budget) {
  std::string text;
  double number = 0;
  if (conversion.type == 's') {
    text = TextOf(value, budget);
  } else if (conversion.type == 'r') {
    AppendRepr(value, text, budget);
  } else if (value.AsFloat(number) && (conversion.type == 'd' || conversion.type == 'i')) {
    int64_t integer = 0;
    text = value.AsInteger(integer) ? std::to_string(integer)
                                    : fmt::format("{:.0f}", std::trunc(number));
  } else if (value.AsFloat(number) && conversion.type == 'f') {
    text = fmt::format("{:.{}f}", number, std::min<size_t>(conversion.precision, 300));
  } else {
    Fail("a % format has a conversion that is not supported");
  }
  const bool is_text = conversion.type == 's' || conversion.type == 'r';
  if (is_text && conversion.has_precision) {
    text = Encode(std::u32string_view(Decode(text)).substr(0, conversion.precision));
  }
  const auto width = static_cast<int64_t>(conversion.width);
  if (conversion.zeros && !conversion.left && !is_text) {
    const bool negative = text.starts_with('-');
    return (negative ? "-" : "") +
           Padded(text.substr(negative ? 1 : 0), width - (negative ? 1 : 0), "0", 1, budget);
  }
  return Padded(text, width, " ", conversion.left ? -1 : 1, budget);
}

}  // namespace

bool IsChangingMethod(std::string_view name) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"append", "clear", "extend", "insert", "pop", "popitem",
                                       "remove", "reverse", "setdefault", "sort", "update"});
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool HasMethod(const Value& receiver, std::string_view name) {
  if (receiver.AsText() != nullptr) return name == "format" || FindTextMethod(name) != nullptr;
  if (receiver.AsDict() != nullptr) {
    return name == "get" || name == "items" || name == "keys" || name == "values" || name == "copy";
  }
  if (const List* list = receiver.AsList()) {
    const bool indexed = list->kind == ListKind::kList || list->kind == ListKind::kTuple;
    return indexed && (name == "count" || name == "index" ||
                       (name == "copy" && list->kind == ListKind::kList));
  }
  return receiver.AsLoop() != nullptr && name == "cycle";
}

Value CallMethod(const Method& method, const Arguments& arguments, Budget& budget) {
  const Value& receiver = method.receiver;
  ArgumentReader reader(method.name, arguments);
  if (const std::string* text = receiver.AsText()) {
    if (method.name == "format") return NewText(BraceFormat(*text, arguments, budget), budget);
    return FindTextMethod(method.name)->call(*text, reader, budget);
  }
  if (receiver.AsDict() != nullptr) return CallDictMethod(receiver, method.name, reader, budget);
  if (const List* list = receiver.AsList()) {
    return CallListMethod(*list, method.name, reader, budget);
  }
  if (arguments.positional.empty()) Fail("cycle has nothing to choose from");
  return arguments.positional[receiver.AsLoop()->index % arguments.positional.size()];
}

Value PercentFormat(const std::string& format, const Value& value, Budget& budget) {
  const List* tuple = value.AsList();
  if (tuple != nullptr && tuple->kind != ListKind::kTuple) tuple = nullptr;
  size_t used = 0;
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    ++i;
    const Conversion conversion = ReadConversion(format, i);
    if (conversion.type == '%') {
      out += '%';
      continue;
    }
    const size_t available = tuple == nullptr ? 1 : tuple->items.size();
    if (used >= available) Fail("a % format has fewer values than conversions");
    out += Converted(conversion, tuple == nullptr ? value : tuple->items[used], budget);
    ++used;
    budget.Text(out.size());
  }
  const bool all_used = tuple == nullptr ? (used == 1 || value.AsDict() || value.AsList())
                                         : used == tuple->items.size();
  if (!all_used) Fail("a % format has more values than conversions");
  return NewText(std::move(out), budget);
}

}  // namespace kvant::jinja
