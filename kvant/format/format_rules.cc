#include "kvant/format/format_rules.h"

#include <fmt/format.h>

#include <utility>

#include "kvant/core/error.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

constexpr size_t kQuotedCharacters = 80;
constexpr uint32_t kSmallestHeadDim = 32;
constexpr uint32_t kLargestHeadDim = 512;
// Rows of 2-bit codes are packed in groups of 16 channels, and a group of scales spans whole ones.
constexpr uint32_t kChannelStep = 16;

bool IsInteger(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kInt2;
}

bool SpansTokens(const StreamFormat& stream) {
  return stream.granularity == Granularity::kTensor || stream.granularity == Granularity::kHead ||
         stream.granularity == Granularity::kChannel;
}

// One of K and V, with the words of its refusals.
class StreamRules {
 public:
  StreamRules(const StreamFormat& stream, std::string_view name, std::string_view text)
      : stream_(stream), name_(name), text_(text) {}

  void Check() const {
    CheckCentering();
    if (!IsQuantized(stream_.codec)) {
      CheckUnquantized();
      return;
    }
    CheckGranularity();
    switch (stream_.source) {
      case ScaleSource::kUnit:
        CheckUnit();
        break;
      case ScaleSource::kStatic:
        CheckStatic();
        break;
      case ScaleSource::kDynamic:
        CheckDynamic();
        break;
    }
  }

 private:
  void RefuseIf(bool wrong, std::string_view why, std::string_view hint) const {
    if (wrong) RefuseFormat(text_, fmt::format("{}: {}", name_, why), std::string(hint));
  }

  void CheckCentering() const {
    RefuseIf(name_ == "v" && stream_.centering != Centering::kNone,
             "bias_removed and block_mean are for K only", "drop it from V");
  }

  void CheckUnquantized() const {
    RefuseIf(stream_.centering == Centering::kBlockMean,
             "block_mean does nothing to a 16- or 32-bit codec",
             "only bias_removed may stand there");
    StreamFormat plain;
    plain.codec = stream_.codec;
    plain.centering = stream_.centering;
    RefuseIf(!(stream_ == plain),
             "a 16- or 32-bit codec has no scale, zero point, Hadamard or clip",
             "only bias_removed may stand there, on K");
  }

  void CheckGranularity() const {
    RefuseIf(stream_.granularity == Granularity::kNone, "a codec of 8 bits or fewer needs a scale",
             "add tensor, head, channel, token_head or groupN");
    const bool grouped = stream_.granularity == Granularity::kGroup;
    const uint32_t group = stream_.group;
    RefuseIf(grouped && (group == 0 || group > kLargestHeadDim || group % kChannelStep != 0),
             fmt::format("a group of {} channels", group), "multiples of 16 up to 512");
    RefuseIf(!grouped && group != StreamFormat().group, "a group size without groups",
             "use groupN");
  }

  void CheckUnit() const {
    RefuseIf(IsInteger(stream_.codec), "integer codes need a static or dynamic scale",
             "add static or dynamic");
    RefuseIf(
        stream_.granularity != Granularity::kTensor && stream_.granularity != Granularity::kHead,
        "a scale of 1.0 is the same for a whole tensor or head",
        "tensor or head, or a static or dynamic scale");
    CheckNotStored();
  }

  void CheckStatic() const {
    RefuseIf(!SpansTokens(stream_), "static scales span a tensor, head or channel",
             "tensor, head or channel, or drop static");
    RefuseIf(stream_.hadamard, "static scales are made from unrotated values",
             "drop hadamard or static");
    RefuseIf(stream_.centering != Centering::kNone,
             "static scales are made from values with their bias and mean",
             "drop bias_removed, block_mean or static");
    CheckNotStored();
  }

  // What a unit or static scale cannot have, since no block holds it.
  void CheckNotStored() const {
    RefuseIf(stream_.zero_point, "only dynamic integer formats have a zero point", "drop zp");
    RefuseIf(stream_.scale_storage != ScaleStorage::kFp16,
             "only dynamic scales are stored in blocks", "drop fp32_scale or packed_scale");
    RefuseIf(stream_.clip != 1.0F, "clip needs a dynamic scale", "drop clip");
  }

  void CheckDynamic() const {
    RefuseIf(
        stream_.granularity == Granularity::kTensor || stream_.granularity == Granularity::kHead,
        "a dynamic scale cannot span tokens of other blocks",
        "channel (within its block), token_head or groupN, or a static scale");
    RefuseIf(stream_.zero_point && !IsInteger(stream_.codec),
             "a floating-point codec has no zero point", "drop zp");
    const bool packable = stream_.codec == Codec::kInt4 && stream_.zero_point &&
                          stream_.granularity == Granularity::kTokenHead;
    RefuseIf(stream_.scale_storage == ScaleStorage::kFp32Packed && !packable,
             "packed_scale holds the zero point of int4:token_head:zp", "fp16_scale or fp32_scale");
    RefuseIf(!(stream_.clip > 0.0F && stream_.clip <= 1.0F),
             fmt::format("clip {} is outside (0, 1]", stream_.clip), "for example clip0.95");
  }

  const StreamFormat& stream_;
  std::string_view name_;
  std::string_view text_;
};

void CheckAppend(const KvFormat& format, std::string_view text) {
  if (format.sink_tokens != 0 || format.recent_tokens != 0) {
    RefuseFormat(text, "write=append keeps no token in 16 bits",
                 "drop sink_tokens and recent_tokens, or use write=sealed");
  }
  for (const StreamFormat* stream : {&format.k, &format.v}) {
    if (stream->source == ScaleSource::kDynamic && stream->granularity == Granularity::kChannel) {
      RefuseFormat(text, "write=append cannot have a dynamic scale that spans tokens",
                   "write=sealed, token_head, groupN or a static scale");
    }
    if (stream->centering == Centering::kBlockMean) {
      RefuseFormat(text, "write=append cannot remove a mean over tokens",
                   "write=sealed, or drop block_mean");
    }
  }
}

}  // namespace

void RefuseFormat(std::string_view part, const std::string& why, const std::string& hint) {
  const std::string_view dots = part.size() > kQuotedCharacters ? "..." : "";
  std::string message =
      fmt::format("format '{}{}': {}", part.substr(0, kQuotedCharacters), dots, why);
  for (char& c : message) {
    if (c < ' ' || c > '~') c = '?';
  }
  throw Error(ErrorCode::kUsage, std::move(message), hint);
}

void CheckFormat(const KvFormat& format, std::string_view text) {
  StreamRules(format.k, "k", text).Check();
  StreamRules(format.v, "v", text).Check();
  if (format.write == WriteMode::kAppend) CheckAppend(format, text);
}

void ValidateKvFormat(const KvFormat& format, uint32_t head_dim) {
  const std::string text = ToString(format);
  CheckFormat(format, text);
  if (head_dim < kSmallestHeadDim || head_dim > kLargestHeadDim || head_dim % kChannelStep != 0) {
    RefuseFormat(text, fmt::format("head_dim {} is not supported", head_dim),
                 "multiples of 16 from 32 to 512");
  }
  for (const StreamFormat* stream : {&format.k, &format.v}) {
    if (stream->granularity == Granularity::kGroup && head_dim % stream->group != 0) {
      RefuseFormat(text,
                   fmt::format("groups of {} do not divide head_dim {}", stream->group, head_dim),
                   "choose a group size that divides it");
    }
    if (stream->hadamard && !HasHadamard(head_dim)) {
      RefuseFormat(text, fmt::format("there is no Hadamard matrix of size {}", head_dim),
                   "drop hadamard (a name: -hadamard); sizes are 2^n times 1, 12, 20 or "
                   "28");
    }
  }
}

}  // namespace kvant
