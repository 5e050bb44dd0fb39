// The methods that texts, dicts, lists and loops have in Python, as far as a sandboxed template
// may call them.
#pragma once

#include <string_view>

#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

bool HasMethod(const Value& receiver, std::string_view name);
// Names that Python's sandbox hides because they change a dict or list.
bool IsChangingMethod(std::string_view name);
Value CallMethod(const Method& method, const Arguments& arguments, Budget& budget);

// Python's `format % value`: %s, %r, %d, %i, %f with flags 0 and -, width and precision.
Value PercentFormat(const std::string& format, const Value& value, Budget& budget);

}  // namespace kvant::jinja
