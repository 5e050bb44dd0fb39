// Which combinations of a format's parts can be.
#pragma once

#include <string>
#include <string_view>

#include "kvant/format/kv_format.h"

namespace kvant {

// Throws Error{kUsage}. part: the text that is wrong, shortened and made printable in the message.
[[noreturn]] void RefuseFormat(std::string_view part, const std::string& why,
                               const std::string& hint);

// The rules that do not depend on a model. text: how the user wrote the format. Throws
// Error{kUsage}.
void CheckFormat(const KvFormat& format, std::string_view text);

}  // namespace kvant
