#include "kvant/model/tokenizer/detokenizer.h"

#include <utility>

#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Assembler::Append(std::string_view bytes) {
  const std::string joined = std::exchange(held_, "").append(bytes);
  std::string text;
  text.reserve(joined.size());
  for (size_t at = 0; at < joined.size();) {
    const Utf8Character character = DecodeUtf8(joined, at);
    if (character.form == Utf8Form::kTruncated) {
      held_ = joined.substr(at);
      break;
    }
    if (character.form == Utf8Form::kValid) {
      text.append(joined, at, character.bytes);
    } else {
      text.append(kReplacement);
    }
    at += character.bytes;
  }
  return text;
}

std::string Utf8Assembler::Flush() {
  return std::string(std::exchange(held_, "").empty() ? "" : kReplacement);
}

}  // namespace kvant
