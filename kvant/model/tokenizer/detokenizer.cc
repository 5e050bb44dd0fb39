#include "kvant/model/tokenizer/detokenizer.h"

#include "kvant/model/tokenizer/utf8.h"

namespace kvant {

namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

// Whether the bytes from `at` to the end could be the start of a character.
bool MayContinue(std::string_view text, size_t at) {
  const size_t rest = text.size() - at;
  if (rest > 3) return false;
  // A prefix is possible if some completion of it is valid.
  for (const char low : {'\x80', '\x90', '\xA0', '\xBF'}) {
    std::string completed(text.substr(at));
    while (completed.size() < 4) {
      completed.push_back(low);
      const Utf8Character c = Utf8At(completed, 0);
      if (c.code_point >= 0 && c.bytes > rest) return true;
    }
  }
  return false;
}

}  // namespace

std::string StreamingDetokenizer::TakeComplete(bool flush) {
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Character c = Utf8At(pending_, at);
    if (c.code_point >= 0) {
      out.append(pending_, at, c.bytes);
    } else if (!flush && MayContinue(pending_, at)) {
      break;
    } else {
      out += kReplacement;
    }
    at += c.bytes;
  }
  pending_.erase(0, at);
  return out;
}

std::string StreamingDetokenizer::Append(TokenId token) {
  pending_ += tokenizer_.Piece(token, show_special_);
  return TakeComplete(false);
}

std::string StreamingDetokenizer::Flush() { return TakeComplete(true); }

}  // namespace kvant
