// The grammar of formats: text to KvFormat and back (docs/formats.md).
#include "kvant/format/kv_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "kvant/format/format_rules.h"
#include "kvant/format/named_formats.h"

namespace kvant {

namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxProtectedTokens = 1U << 20;

constexpr const char* kAttributes =
    "attributes: tensor, head, channel, token_head, groupN, unit, static, "
    "dynamic, zp, "
    "fp16_scale, fp32_scale, packed_scale, hadamard, bias_removed, block_mean, "
    "clipX";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// What the attributes of one stream said so far: each kind may be said once.
struct Said {
  bool granularity = false;
  bool source = false;
  bool storage = false;
  bool centering = false;
  bool clip = false;
};

// Sets *field, and tells whether this is the first time that *said its kind.
template <typename T>
bool SetOnce(T value, T* field, bool* said) {
  const bool first = !*said;
  *field = value;
  *said = true;
  return first;
}

bool SetFlag(bool* flag) {
  const bool first = !*flag;
  *flag = true;
  return first;
}

enum class Applied { kYes, kUnknown, kTwice };

Applied Once(bool first) { return first ? Applied::kYes : Applied::kTwice; }

Applied ApplyNumbered(std::string_view attribute, StreamFormat* stream, Said* said) {
  constexpr std::string_view kGroupWord = "group";
  constexpr std::string_view kClipWord = "clip";
  if (attribute.starts_with(kGroupWord)) {
    const auto size = ParseNumber<uint32_t>(attribute.substr(kGroupWord.size()));
    if (!size) return Applied::kUnknown;
    stream->group = *size;
    return Once(SetOnce(Granularity::kGroup, &stream->granularity, &said->granularity));
  }
  if (attribute.starts_with(kClipWord)) {
    const auto clip = ParseNumber<float>(attribute.substr(kClipWord.size()));
    if (!clip) return Applied::kUnknown;
    return Once(SetOnce(*clip, &stream->clip, &said->clip));
  }
  return Applied::kUnknown;
}

Applied ApplyAttribute(std::string_view attribute, StreamFormat* stream, Said* said) {
  const auto granularity = [&](Granularity value) {
    return Once(SetOnce(value, &stream->granularity, &said->granularity));
  };
  const auto source = [&](ScaleSource value) {
    return Once(SetOnce(value, &stream->source, &said->source));
  };
  const auto storage = [&](ScaleStorage value) {
    return Once(SetOnce(value, &stream->scale_storage, &said->storage));
  };
  const auto centering = [&](Centering value) {
    return Once(SetOnce(value, &stream->centering, &said->centering));
  };
  if (attribute == "tensor") return granularity(Granularity::kTensor);
  if (attribute == "head") return granularity(Granularity::kHead);
  if (attribute == "channel") return granularity(Granularity::kChannel);
  if (attribute == "token_head") return granularity(Granularity::kTokenHead);
  if (attribute == "unit") return source(ScaleSource::kUnit);
  if (attribute == "static") return source(ScaleSource::kStatic);
  if (attribute == "dynamic") return source(ScaleSource::kDynamic);
  if (attribute == "fp16_scale") return storage(ScaleStorage::kFp16);
  if (attribute == "fp32_scale") return storage(ScaleStorage::kFp32);
  if (attribute == "packed_scale") return storage(ScaleStorage::kFp32Packed);
  if (attribute == "bias_removed") return centering(Centering::kBiasRemoved);
  if (attribute == "block_mean") return centering(Centering::kBlockMean);
  if (attribute == "zp") return Once(SetFlag(&stream->zero_point));
  if (attribute == "hadamard") return Once(SetFlag(&stream->hadamard));
  return ApplyNumbered(attribute, stream, said);
}

// What follows from what was said: a static or unit scale spans a tensor, a scale per channel,
// token or group is dynamic, unless the text says otherwise.
void FillIn(const Said& said, StreamFormat* stream) {
  if (said.source && !said.granularity && stream->source != ScaleSource::kDynamic) {
    stream->granularity = Granularity::kTensor;
  }
  const bool varies = stream->granularity == Granularity::kChannel ||
                      stream->granularity == Granularity::kTokenHead ||
                      stream->granularity == Granularity::kGroup;
  if (!said.source && varies) stream->source = ScaleSource::kDynamic;
}

void ApplyAttributes(std::string_view part, const std::vector<std::string_view>& attributes,
                     StreamFormat* stream) {
  Said said;
  for (const std::string_view attribute : attributes) {
    switch (ApplyAttribute(attribute, stream, &said)) {
      case Applied::kYes:
        break;
      case Applied::kUnknown:
        RefuseFormat(part, fmt::format("'{}' is not an attribute", attribute.substr(0, 40)),
                     kAttributes);
      case Applied::kTwice:
        RefuseFormat(part,
                     fmt::format("'{}' repeats or contradicts an attribute before it",
                                 attribute.substr(0, 40)),
                     "give each kind of attribute once");
    }
  }
  FillIn(said, stream);
}

StreamFormat Plain(Codec codec) {
  StreamFormat stream;
  stream.codec = codec;
  return stream;
}

// A name alone, or with a centering, stands for that stream of the named format; a codec with any
// other attribute stands for just these attributes.
StreamFormat ParseStream(std::string_view text, bool is_key) {
  const std::vector<std::string_view> parts = Split(text, ':');
  const std::vector<std::string_view> attributes(parts.begin() + 1, parts.end());
  const std::optional<Codec> codec = CodecFromName(parts.front());
  const KvFormat* named = FindNamedFormat(parts.front());
  const bool only_centring =
      std::all_of(attributes.begin(), attributes.end(), [](std::string_view attribute) {
        return attribute == "bias_removed" || attribute == "block_mean";
      });
  StreamFormat stream;
  if (named != nullptr && only_centring) {
    stream = is_key ? named->k : named->v;
  } else if (codec) {
    stream = Plain(*codec);
  } else {
    RefuseFormat(text, fmt::format("'{}' is not a codec", parts.front().substr(0, 40)),
                 "codecs: fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, int4, int2; "
                 "without "
                 "attributes, also the names of formats");
  }
  ApplyAttributes(text, attributes, &stream);
  return stream;
}

void ApplyModifier(std::string_view part, char sign, std::string_view modifier, KvFormat* format) {
  const bool on = sign == '+';
  if (modifier == "hadamard") {
    format->k.hadamard = on;
    format->v.hadamard = on;
  } else if (on && modifier == "bias_removed") {
    format->k.centering = Centering::kBiasRemoved;
  } else if (on && modifier == "block_mean") {
    format->k.centering = Centering::kBlockMean;
  } else {
    RefuseFormat(part, fmt::format("'{}{}' is not a modifier", sign, modifier.substr(0, 40)),
                 "modifiers: +hadamard, -hadamard, +bias_removed, +block_mean");
  }
}

// The scales after a name (`fp8_e4m3:static:head`) replace what the name says of scales.
void ApplyScales(std::string_view part, const std::vector<std::string_view>& attributes,
                 KvFormat* format) {
  for (const std::string_view attribute : attributes) {
    if (attribute == "static" || attribute == "unit" || attribute == "tensor" ||
        attribute == "head" || attribute == "channel") {
      continue;
    }
    RefuseFormat(part, fmt::format("'{}' cannot follow a name", attribute.substr(0, 40)),
                 "static or unit, and tensor, head or channel; for more, k=... and "
                 "v=...");
  }
  const bool says_source = std::any_of(
      attributes.begin(), attributes.end(),
      [](std::string_view attribute) { return attribute == "static" || attribute == "unit"; });
  for (StreamFormat* stream : {&format->k, &format->v}) {
    const ScaleSource source = stream->source;
    if (!says_source && source == ScaleSource::kDynamic) {
      RefuseFormat(part, "the scales of this name are dynamic", "add static");
    }
    *stream = Plain(stream->codec);
    ApplyAttributes(part, attributes, stream);
    if (!says_source) stream->source = source;
  }
}

// `name`, `name:static:head`, `name+bias_removed-hadamard`.
KvFormat ParseNamed(std::string_view text) {
  const size_t first_modifier = text.find_first_of("+-");
  const std::vector<std::string_view> parts = Split(text.substr(0, first_modifier), ':');
  const KvFormat* named = FindNamedFormat(parts.front());
  if (named == nullptr) {
    RefuseFormat(text, fmt::format("'{}' is not a format", parts.front().substr(0, 40)),
                 KnownFormatNames(parts.front()));
  }
  KvFormat format = *named;
  if (parts.size() > 1) ApplyScales(text, {parts.begin() + 1, parts.end()}, &format);
  for (size_t at = first_modifier; at != std::string_view::npos;) {
    const size_t next = text.find_first_of("+-", at + 1);
    ApplyModifier(text, text[at], text.substr(at + 1, next - at - 1), &format);
    at = next;
  }
  return format;
}

uint32_t ParseProtectedTokens(std::string_view part, std::string_view value) {
  const auto tokens = ParseNumber<uint32_t>(value);
  if (!tokens || *tokens > kMaxProtectedTokens) {
    RefuseFormat(part, "not a number of tokens",
                 fmt::format("a number from 0 to {}", kMaxProtectedTokens));
  }
  return *tokens;
}

Rounding ParseRounding(std::string_view part, std::string_view value) {
  if (value == "none") return Rounding::kNone;
  if (value == "fp8_e4m3") return Rounding::kFp8E4m3;
  RefuseFormat(part, "not a rounding", "fp8_e4m3 or none");
}

WriteMode ParseWrite(std::string_view part, std::string_view value) {
  if (value == "append") return WriteMode::kAppend;
  if (value == "sealed") return WriteMode::kSealed;
  RefuseFormat(part, "not a way of writing", "append or sealed");
}

// One `key=value`.
void ApplySetting(std::string_view part, KvFormat* format) {
  const size_t equals = part.find('=');
  const std::string_view key = part.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  if (key == "k") {
    format->k = ParseStream(value, true);
  } else if (key == "v") {
    format->v = ParseStream(value, false);
  } else if (key == "write") {
    format->write = ParseWrite(part, value);
  } else if (key == "sink_tokens") {
    format->sink_tokens = ParseProtectedTokens(part, value);
  } else if (key == "recent_tokens") {
    format->recent_tokens = ParseProtectedTokens(part, value);
  } else if (key == "q") {
    format->query_rounding = ParseRounding(part, value);
  } else if (key == "p") {
    format->probability_rounding = ParseRounding(part, value);
  } else {
    RefuseFormat(part, fmt::format("'{}' is not a setting", key.substr(0, 40)),
                 "settings: k, v, write, sink_tokens, recent_tokens, q, p "
                 "(skip= comes last, and "
                 "only where a plan for a model is meant)");
  }
}

// Each setting once; k= and v= both, unless a name comes first.
void ApplySettings(std::string_view text, const std::vector<std::string_view>& settings,
                   bool has_name, KvFormat* format) {
  std::vector<std::string_view> keys;
  for (const std::string_view setting : settings) {
    const std::string_view key = setting.substr(0, setting.find('='));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      RefuseFormat(setting, "this setting stands twice", "give each setting once");
    }
    ApplySetting(setting, format);
    keys.push_back(key);
  }
  for (const std::string_view stream : {"k", "v"}) {
    if (!has_name && std::find(keys.begin(), keys.end(), stream) == keys.end()) {
      RefuseFormat(text, fmt::format("{}= is missing", stream),
                   "without a name, give both k= and v=");
    }
  }
}

const char* GranularityText(Granularity granularity) {
  switch (granularity) {
    case Granularity::kTensor:
      return ":tensor";
    case Granularity::kHead:
      return ":head";
    case Granularity::kChannel:
      return ":channel";
    case Granularity::kTokenHead:
      return ":token_head";
    case Granularity::kNone:
    case Granularity::kGroup:
      break;
  }
  return "";
}

const char* SourceText(ScaleSource source) {
  switch (source) {
    case ScaleSource::kUnit:
      return ":unit";
    case ScaleSource::kStatic:
      return ":static";
    case ScaleSource::kDynamic:
      break;
  }
  return ":dynamic";
}

std::string StreamText(const StreamFormat& stream) {
  std::string text(CodecName(stream.codec));
  text += GranularityText(stream.granularity);
  if (stream.granularity == Granularity::kGroup) text += fmt::format(":group{}", stream.group);
  if (stream.granularity != Granularity::kNone) text += SourceText(stream.source);
  if (stream.zero_point) text += ":zp";
  if (stream.scale_storage == ScaleStorage::kFp32) text += ":fp32_scale";
  if (stream.scale_storage == ScaleStorage::kFp32Packed) text += ":packed_scale";
  if (stream.hadamard) text += ":hadamard";
  if (stream.centering == Centering::kBiasRemoved) text += ":bias_removed";
  if (stream.centering == Centering::kBlockMean) text += ":block_mean";
  if (stream.clip != 1.0F) text += fmt::format(":clip{}", stream.clip);
  return text;
}

struct Spelling {
  std::string text;
  KvFormat format;
};

// Every name with every change that the grammar of names can express, shortest spellings first
// among those that mean the same.
std::vector<Spelling> MakeSpellings() {
  std::vector<Spelling> spellings;
  for (const char* scales : {"", ":head", ":static", ":static:head", ":static:channel"}) {
    for (const NamedFormat& named : NamedFormats()) {
      const bool has_unit_scale =
          named.format.k.source == ScaleSource::kUnit && IsQuantized(named.format.k.codec);
      if (std::string_view(scales) == ":head" && !has_unit_scale) continue;
      for (const char* rotation : {"", "+hadamard", "-hadamard"}) {
        for (const char* centering : {"", "+bias_removed", "+block_mean"}) {
          const std::string text = std::string(named.name) + scales + rotation + centering;
          spellings.push_back({text, ParseNamed(text)});
        }
      }
    }
  }
  return spellings;
}

// The name and changes that give exactly this format but for its protected tokens; empty if none.
std::string_view SpellingOf(KvFormat format) {
  static const std::vector<Spelling> spellings = MakeSpellings();
  format.sink_tokens = 0;
  format.recent_tokens = 0;
  for (const Spelling& spelling : spellings) {
    if (spelling.format == format) return spelling.text;
  }
  return {};
}

std::string ProtectedText(const KvFormat& format) {
  std::string text;
  if (format.sink_tokens != 0) text += fmt::format(",sink_tokens={}", format.sink_tokens);
  if (format.recent_tokens != 0) text += fmt::format(",recent_tokens={}", format.recent_tokens);
  return text;
}

}  // namespace

uint32_t CodecBits(Codec codec) {
  switch (codec) {
    case Codec::kFp32:
      return 32;
    case Codec::kBf16:
    case Codec::kFp16:
      return 16;
    case Codec::kFp8E4m3:
    case Codec::kFp8E5m2:
    case Codec::kInt8:
      return 8;
    case Codec::kInt4:
      return 4;
    case Codec::kInt2:
      return 2;
  }
  return 0;
}

bool IsQuantized(Codec codec) { return CodecBits(codec) <= 8; }

bool IsQuantized(const KvFormat& format) {
  return IsQuantized(format.k.codec) || IsQuantized(format.v.codec);
}

bool NeedsStaticScales(const KvFormat& format) {
  return format.k.source == ScaleSource::kStatic || format.v.source == ScaleSource::kStatic;
}

Codec OpenCodec(const StreamFormat& stream) {
  return IsQuantized(stream.codec) ? Codec::kBf16 : stream.codec;
}

KvFormat ParseKvFormat(std::string_view text) {
  if (text.empty() || text.size() > kMaxTextBytes) {
    RefuseFormat(text, fmt::format("its text has {} characters", text.size()),
                 fmt::format("1 to {} characters; {}", kMaxTextBytes, KnownFormatNames("")));
  }
  std::vector<std::string_view> parts = Split(text, ',');
  KvFormat format;
  const bool has_name = parts.front().find('=') == std::string_view::npos;
  if (has_name) {
    format = ParseNamed(parts.front());
    parts.erase(parts.begin());
  }
  ApplySettings(text, parts, has_name, &format);
  CheckFormat(format, text);
  return format;
}

std::string ToString(const KvFormat& format) {
  const std::string_view spelling = SpellingOf(format);
  if (!spelling.empty()) return std::string(spelling) + ProtectedText(format);
  std::string text = fmt::format("k={},v={}", StreamText(format.k), StreamText(format.v));
  if (format.write == WriteMode::kAppend) text += ",write=append";
  text += ProtectedText(format);
  if (format.query_rounding == Rounding::kFp8E4m3) text += ",q=fp8_e4m3";
  if (format.probability_rounding == Rounding::kFp8E4m3) text += ",p=fp8_e4m3";
  return text;
}

double BitsPerValue(const StreamFormat& stream, uint32_t head_dim) {
  double bits = CodecBits(stream.codec);
  if (stream.centering == Centering::kBlockMean) bits += 16.0 / kBlockTokens;
  if (stream.source != ScaleSource::kDynamic) return bits;
  const double scale_bits = stream.scale_storage == ScaleStorage::kFp16 ? 16 : 32;
  const bool has_offset = stream.zero_point && stream.scale_storage != ScaleStorage::kFp32Packed;
  const double bits_per_scale = has_offset ? 2 * scale_bits : scale_bits;
  switch (stream.granularity) {
    case Granularity::kChannel:
      return bits + bits_per_scale / kBlockTokens;
    case Granularity::kTokenHead:
      return bits + bits_per_scale / head_dim;
    case Granularity::kGroup:
      return bits + bits_per_scale / stream.group;
    case Granularity::kNone:
    case Granularity::kTensor:
    case Granularity::kHead:
      break;
  }
  return bits;
}

}  // namespace kvant
