// The formats that have a name, and the names of codecs (docs/formats.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/format/kv_format.h"

namespace kvant {

struct NamedFormat {
  std::string_view name;
  KvFormat format;
};

const std::vector<NamedFormat>& NamedFormats();

// Null if no format has this name.
const KvFormat* FindNamedFormat(std::string_view name);

// A hint for a name that does not exist: the closest one, if any is close, and the list.
std::string KnownFormatNames(std::string_view near);

std::string_view CodecName(Codec codec);
std::optional<Codec> CodecFromName(std::string_view text);

}  // namespace kvant
