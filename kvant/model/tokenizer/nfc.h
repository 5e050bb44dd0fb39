// Unicode normalisation form C, which some tokenizers apply before they cut.
#pragma once

#include <string>
#include <string_view>

namespace kvant {

// Bytes that are not UTF-8 stay as they are, and nothing composes across them.
std::string ToNfc(std::string_view text);

}  // namespace kvant
