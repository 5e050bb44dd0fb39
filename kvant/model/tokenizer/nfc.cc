#include "kvant/model/tokenizer/nfc.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <algorithm>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

void AppendNfc(std::string_view valid, std::string* out) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  icu::StringByteSink<std::string> sink(out);
  const icu::StringPiece piece(valid.data(), static_cast<int32_t>(valid.size()));
  if (U_SUCCESS(status)) nfc->normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) {
    throw Error(ErrorCode::kInternal, std::string("ICU cannot normalise: ") + u_errorName(status));
  }
}

}  // namespace

std::string ToNfc(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Character character = DecodeUtf8(text, at);
    if (character.form != Utf8Form::kValid) {
      AppendNfc(text.substr(begin, at - begin), &out);
      out.append(text, at, character.bytes);
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  AppendNfc(text.substr(begin), &out);
  return out;
}

}  // namespace kvant
