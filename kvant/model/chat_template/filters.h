// The filters and tests of Jinja that chat templates use.
#pragma once

#include <string_view>

#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

// `input | name(arguments)`. Fails on a name that is not known.
Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Budget& budget);
// `input is name(arguments)`. Fails on a name that is not known.
bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments,
               Budget& budget);

}  // namespace kvant::jinja
