// Text from tokens as they come, never broken in the middle of a character.
#pragma once

#include <string>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, bool show_special = false)
      : tokenizer_(tokenizer), show_special_(show_special) {}

  // Valid UTF-8 that is complete now. Bytes that may still become a character are held back;
  // bytes that cannot are replaced by U+FFFD.
  std::string Append(TokenId token);
  // What is held back, as U+FFFD.
  std::string Flush();

 private:
  std::string TakeComplete(bool flush);

  const Tokenizer& tokenizer_;
  bool show_special_;
  std::string pending_;
};

}  // namespace kvant
