// The report page's style sheet. It holds no character that HTML would escape.
#pragma once

#include <string_view>

namespace kvant {

std::string_view PageStyle();

}  // namespace kvant
