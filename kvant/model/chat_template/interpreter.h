// Runs a syntax tree. It reads nothing but the values given to it and the time.
#pragma once

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "kvant/model/chat_template/json_text.h"
#include "kvant/model/chat_template/syntax.h"

namespace kvant::jinja {

// Renders `body` with the names of `context` defined. `now` is what strftime_now tells. Throws
// Error{kInvalidInput} that names the line.
std::string Interpret(const Body& body,
                      const std::vector<std::pair<std::string, OrderedJson>>& context,
                      const std::tm& now, const ChatTemplateLimits& limits);

}  // namespace kvant::jinja
