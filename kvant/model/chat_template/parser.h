// Reads the source of a template into its syntax tree.
#pragma once

#include <string_view>

#include "kvant/model/chat_template/budget.h"
#include "kvant/model/chat_template/syntax.h"

namespace kvant::jinja {

// Throws Error{kInvalidInput} that names the line of a mistake, of a filter or test that is not
// known, or of nesting beyond the limit; Error{kUnsupported} for tags that read other templates.
Body Parse(std::string_view source, const ChatTemplateLimits& limits);

}  // namespace kvant::jinja
