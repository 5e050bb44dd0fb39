// The user's text as token windows: some to calibrate on, others to evaluate on, never both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {

class TextSplit {
 public:
  // The first third of the tokens is for calibration, the rest for evaluation.
  TextSplit(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

  uint64_t calibration_tokens() const { return boundary_; }
  uint64_t evaluation_tokens() const { return tokens_.size() - boundary_; }

  // `count` windows of `length` tokens, spread evenly over their part; they do not overlap unless
  // there is too little text: then Error{kInvalidInput} says how much is needed. A beginning token
  // stands first where the model wants one.
  std::vector<std::vector<TokenId>> CalibrationWindows(uint64_t count, uint64_t length) const;
  std::vector<std::vector<TokenId>> EvaluationWindows(uint64_t count, uint64_t length) const;

  // SHA-256 of the token ids of each part.
  std::string CalibrationDigest() const;
  std::string EvaluationDigest() const;

 private:
  std::vector<std::vector<TokenId>> Windows(uint64_t begin, uint64_t end, uint64_t count,
                                            uint64_t length, const char* part) const;
  std::string DigestOf(uint64_t begin, uint64_t end) const;

  std::vector<TokenId> tokens_;
  uint64_t boundary_ = 0;
  std::optional<TokenId> bos_;
};

}  // namespace kvant
