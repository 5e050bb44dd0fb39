#include "kvant/experiment/text_split.h"

#include <fmt/format.h>

#include "kvant/core/error.h"
#include "kvant/core/sha256.h"

namespace kvant {

TextSplit::TextSplit(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  if (tokenizer.adds_bos()) bos_ = tokenizer.bos();
  for (const std::string& text : texts) {
    const std::vector<TokenId> tokens = tokenizer.Encode(text, {});
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  boundary_ = tokens_.size() / 3;
}

std::vector<std::vector<TokenId>> TextSplit::Windows(uint64_t begin, uint64_t end, uint64_t count,
                                                     uint64_t length, const char* part) const {
  KVANT_CHECK(count > 0 && length > 1);
  const uint64_t available = end - begin;
  if (count * length > available) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} needs {} windows of {} tokens = {}; the text has {} for it", part,
                            count, length, count * length, available),
                "give more --text, fewer --documents or shorter --buckets");
  }
  std::vector<std::vector<TokenId>> windows;
  const uint64_t stride = available / count;
  for (uint64_t i = 0; i < count; ++i) {
    const auto first = tokens_.begin() + static_cast<ptrdiff_t>(begin + i * stride);
    std::vector<TokenId> window;
    if (bos_) window.push_back(*bos_);
    window.insert(window.end(), first, first + static_cast<ptrdiff_t>(length - window.size()));
    windows.push_back(std::move(window));
  }
  return windows;
}

std::vector<std::vector<TokenId>> TextSplit::CalibrationWindows(uint64_t count,
                                                                uint64_t length) const {
  return Windows(0, boundary_, count, length, "calibration");
}

std::vector<std::vector<TokenId>> TextSplit::EvaluationWindows(uint64_t count,
                                                               uint64_t length) const {
  return Windows(boundary_, tokens_.size(), count, length, "evaluation");
}

std::string TextSplit::DigestOf(uint64_t begin, uint64_t end) const {
  return Hex(Sha256Of(std::span(reinterpret_cast<const uint8_t*>(tokens_.data() + begin),
                                (end - begin) * sizeof(TokenId))));
}

std::string TextSplit::CalibrationDigest() const { return DigestOf(0, boundary_); }
std::string TextSplit::EvaluationDigest() const { return DigestOf(boundary_, tokens_.size()); }

}  // namespace kvant
