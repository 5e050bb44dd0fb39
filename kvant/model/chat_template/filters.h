// The filters and tests of Jinja that chat templates use.
#pragma once

#include <string_view>

#include "kvant/model/chat_template/value.h"

namespace kvant::jinja {

bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

// `input | name(arguments)`. The name must be one of a filter.
Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments,
                  Budget& budget);
// `input is name(arguments)`. The name must be one of a test.
bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments,
               Budget& budget);

}  // namespace kvant::jinja
