// Reads the source of a template into its syntax tree.
#pragma once

#include <string_view>

#include "kvant/model/chat_template/budget.h"
#include "kvant/model/chat_template/syntax.h"

namespace kvant::jinja {

// Throws Error{kInvalidInput} that names the line of a mistake or of nesting beyond the limit;
// Error{kUnsupported} for tags that read other templates. Filters and tests that are not known
// fail only where they are used, as in Jinja: templates ask for some that few systems have.
Body Parse(std::string_view source, const ChatTemplateLimits& limits);

}  // namespace kvant::jinja
