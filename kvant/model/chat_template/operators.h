// Python's arithmetic on template values. Integers that leave 64 bits are a failure.
#pragma once

#include "kvant/model/chat_template/syntax.h"
#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

Value ApplyBinary(Binary::Kind kind, const Value& left, const Value& right, Budget& budget);
Value ApplyUnary(Unary::Kind kind, const Value& operand);
bool ApplyComparison(Comparison::Kind kind, const Value& left, const Value& right, Budget& budget);

}  // namespace kvant::jinja
