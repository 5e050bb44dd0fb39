#include "kvant/format/kv_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxProtectedTokens = 1U << 20;

constexpr std::array<std::pair<std::string_view, Codec>, 8> kCodecNames = {
    {{"fp32", Codec::kFp32},
     {"bf16", Codec::kBf16},
     {"fp16", Codec::kFp16},
     {"fp8_e4m3", Codec::kFp8E4m3},
     {"fp8_e5m2", Codec::kFp8E5m2},
     {"int8", Codec::kInt8},
     {"int4", Codec::kInt4},
     {"int2", Codec::kInt2}}};

[[noreturn]] void Refuse(std::string_view part, const std::string& why, const std::string& hint) {
  throw Error(ErrorCode::kUsage, fmt::format("format '{}': {}", part, why), hint);
}

std::string_view CodecName(Codec codec) {
  for (const auto& [name, value] : kCodecNames) {
    if (value == codec) return name;
  }
  return "?";
}

std::optional<Codec> CodecFromName(std::string_view text) {
  for (const auto& [name, value] : kCodecNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

bool IsInteger(Codec codec) {
  return codec == Codec::kInt8 || codec == Codec::kInt4 || codec == Codec::kInt2;
}

StreamFormat Plain(Codec codec) {
  StreamFormat stream;
  stream.codec = codec;
  return stream;
}

StreamFormat Scaled(Codec codec, Granularity granularity, ScaleSource source) {
  StreamFormat stream = Plain(codec);
  stream.granularity = granularity;
  stream.source = source;
  return stream;
}

StreamFormat Dynamic(Codec codec, Granularity granularity, bool zero_point,
                     ScaleStorage storage = ScaleStorage::kFp16, bool hadamard = false) {
  StreamFormat stream = Scaled(codec, granularity, ScaleSource::kDynamic);
  stream.zero_point = zero_point;
  stream.scale_storage = storage;
  stream.hadamard = hadamard;
  return stream;
}

KvFormat Both(const StreamFormat& stream, WriteMode write) {
  KvFormat format;
  format.k = stream;
  format.v = stream;
  format.write = write;
  return format;
}

struct NamedFormat {
  std::string_view name;
  KvFormat format;
};

std::vector<NamedFormat> MakeNamedFormats() {
  using enum Codec;
  using enum Granularity;
  std::vector<NamedFormat> formats;
  const auto add = [&formats](std::string_view name, const KvFormat& format) {
    formats.push_back({name, format});
  };
  for (const Codec codec : {kFp32, kBf16, kFp16}) {
    add(CodecName(codec), Both(Plain(codec), WriteMode::kSealed));
  }
  for (const Codec codec : {kFp8E4m3, kFp8E5m2}) {
    add(CodecName(codec), Both(Scaled(codec, kTensor, ScaleSource::kUnit), WriteMode::kAppend));
  }
  KvFormat int8;
  int8.k = Dynamic(kInt8, kChannel, true);
  int8.v = Dynamic(kInt8, kTokenHead, true);
  add("int8", int8);
  KvFormat int4;
  int4.k = Dynamic(kInt4, kChannel, true);
  int4.v = Dynamic(kInt4, kTokenHead, true, ScaleStorage::kFp16, true);
  add("int4", int4);
  add("int2", Both(Dynamic(kInt2, kTokenHead, true), WriteMode::kSealed));
  add("fp8_per_token_head",
      Both(Dynamic(kFp8E4m3, kTokenHead, false, ScaleStorage::kFp32), WriteMode::kAppend));
  add("int8_per_token_head",
      Both(Dynamic(kInt8, kTokenHead, false, ScaleStorage::kFp32), WriteMode::kAppend));
  add("int4_per_token_head",
      Both(Dynamic(kInt4, kTokenHead, true, ScaleStorage::kFp32Packed, true), WriteMode::kAppend));
  add("q8_0", Both(Dynamic(kInt8, kGroup, false), WriteMode::kSealed));
  add("q4_0", Both(Dynamic(kInt4, kGroup, false), WriteMode::kSealed));
  KvFormat vllm = Both(Scaled(kFp8E4m3, kTensor, ScaleSource::kStatic), WriteMode::kAppend);
  vllm.query_rounding = Rounding::kFp8E4m3;
  vllm.probability_rounding = Rounding::kFp8E4m3;
  add("vllm_fp8", vllm);
  return formats;
}

const std::vector<NamedFormat>& NamedFormats() {
  static const std::vector<NamedFormat> formats = MakeNamedFormats();
  return formats;
}

const KvFormat* FindNamed(std::string_view name) {
  for (const NamedFormat& candidate : NamedFormats()) {
    if (candidate.name == name) return &candidate.format;
  }
  return nullptr;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1,
                                    diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

std::string KnownNames(std::string_view near) {
  std::vector<std::string_view> names;
  std::string_view closest;
  size_t distance = 4;
  for (const NamedFormat& format : NamedFormats()) {
    names.push_back(format.name);
    const size_t d = EditDistance(near.substr(0, 64), format.name);
    if (d < distance) {
      distance = d;
      closest = format.name;
    }
  }
  const std::string list = fmt::format("known: {}", fmt::join(names, ", "));
  return closest.empty() ? list : fmt::format("did you mean {}? {}", closest, list);
}

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
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// --- Streams -----------------------------------------------------------------------------------

constexpr const char* kAttributes =
    "tensor, head, channel, token_head, groupN, unit, static, dynamic, zp, fp16_scale, "
    "fp32_scale, packed_scale, hadamard, bias_removed, block_mean, clipX";

// Applies one attribute; false if it is not one.
bool ApplyAttribute(std::string_view attribute, StreamFormat* stream, bool* source_given) {
  const auto granularity = [&](Granularity value) {
    stream->granularity = value;
    return true;
  };
  const auto source = [&](ScaleSource value) {
    stream->source = value;
    *source_given = true;
    return true;
  };
  if (attribute == "tensor") return granularity(Granularity::kTensor);
  if (attribute == "head") return granularity(Granularity::kHead);
  if (attribute == "channel") return granularity(Granularity::kChannel);
  if (attribute == "token_head") return granularity(Granularity::kTokenHead);
  if (attribute == "unit") return source(ScaleSource::kUnit);
  if (attribute == "static") return source(ScaleSource::kStatic);
  if (attribute == "dynamic") return source(ScaleSource::kDynamic);
  if (attribute == "zp") return stream->zero_point = true;
  if (attribute == "hadamard") return stream->hadamard = true;
  if (attribute == "fp16_scale") {
    stream->scale_storage = ScaleStorage::kFp16;
    return true;
  }
  if (attribute == "fp32_scale") {
    stream->scale_storage = ScaleStorage::kFp32;
    return true;
  }
  if (attribute == "packed_scale") {
    stream->scale_storage = ScaleStorage::kFp32Packed;
    return true;
  }
  if (attribute == "bias_removed") {
    stream->centering = Centering::kBiasRemoved;
    return true;
  }
  if (attribute == "block_mean") {
    stream->centering = Centering::kBlockMean;
    return true;
  }
  if (attribute.starts_with("group")) {
    const auto size = ParseNumber<uint32_t>(attribute.substr(5));
    if (!size) return false;
    stream->group = *size;
    return granularity(Granularity::kGroup);
  }
  if (attribute.starts_with("clip")) {
    const auto clip = ParseNumber<float>(attribute.substr(4));
    if (!clip) return false;
    stream->clip = *clip;
    return true;
  }
  return false;
}

void ApplyAttributes(std::string_view part, const std::vector<std::string_view>& attributes,
                     StreamFormat* stream) {
  bool source_given = false;
  for (const std::string_view attribute : attributes) {
    if (!ApplyAttribute(attribute, stream, &source_given)) {
      Refuse(part, fmt::format("'{}' is not an attribute of a stream", attribute),
             fmt::format("attributes: {}", kAttributes));
    }
  }
  // A static scale spans a tensor unless it says otherwise; what varies with the token or the
  // block can only be dynamic.
  if (stream->source == ScaleSource::kStatic && stream->granularity == Granularity::kNone) {
    stream->granularity = Granularity::kTensor;
  }
  const bool varies = stream->granularity == Granularity::kTokenHead ||
                      stream->granularity == Granularity::kGroup ||
                      stream->granularity == Granularity::kChannel;
  if (!source_given && varies) stream->source = ScaleSource::kDynamic;
}

// `codec` alone stands for that stream of the format of this name; with attributes, for the codec
// and just these attributes.
StreamFormat ParseStream(std::string_view text, bool is_key) {
  std::vector<std::string_view> parts = Split(text, ':');
  const std::string_view name = parts.front();
  parts.erase(parts.begin());
  const std::optional<Codec> codec = CodecFromName(name);
  const KvFormat* named = FindNamed(name);
  const bool centred_only =
      std::all_of(parts.begin(), parts.end(),
                  [](std::string_view a) { return a == "bias_removed" || a == "block_mean"; });
  StreamFormat stream;
  if (named != nullptr && centred_only) {
    stream = is_key ? named->k : named->v;
  } else if (codec) {
    stream = Plain(*codec);
  } else {
    Refuse(text, fmt::format("'{}' is not a codec", name),
           "codecs: fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, int4, int2");
  }
  ApplyAttributes(text, parts, &stream);
  return stream;
}

std::string StreamText(const StreamFormat& stream) {
  std::string text(CodecName(stream.codec));
  switch (stream.granularity) {
    case Granularity::kNone: break;
    case Granularity::kTensor: text += ":tensor"; break;
    case Granularity::kHead: text += ":head"; break;
    case Granularity::kChannel: text += ":channel"; break;
    case Granularity::kTokenHead: text += ":token_head"; break;
    case Granularity::kGroup: text += fmt::format(":group{}", stream.group); break;
  }
  if (stream.granularity != Granularity::kNone) {
    text += stream.source == ScaleSource::kUnit     ? ":unit"
            : stream.source == ScaleSource::kStatic ? ":static"
                                                    : ":dynamic";
  }
  if (stream.zero_point) text += ":zp";
  if (stream.scale_storage == ScaleStorage::kFp32) text += ":fp32_scale";
  if (stream.scale_storage == ScaleStorage::kFp32Packed) text += ":packed_scale";
  if (stream.hadamard) text += ":hadamard";
  if (stream.centering == Centering::kBiasRemoved) text += ":bias_removed";
  if (stream.centering == Centering::kBlockMean) text += ":block_mean";
  if (stream.clip != 1.0F) text += fmt::format(":clip{}", stream.clip);
  return text;
}

// --- Names -------------------------------------------------------------------------------------

void ApplyModifier(std::string_view part, char sign, std::string_view modifier, KvFormat* format) {
  const bool on = sign == '+';
  if (modifier == "hadamard") {
    format->k.hadamard = on;
    format->v.hadamard = on;
  } else if (modifier == "bias_removed" || modifier == "block_mean") {
    const Centering centering =
        modifier == "bias_removed" ? Centering::kBiasRemoved : Centering::kBlockMean;
    format->k.centering = on ? centering : Centering::kNone;
  } else {
    Refuse(part, fmt::format("'{}{}' is not a modifier", sign, modifier),
           "modifiers: +hadamard, -hadamard, +bias_removed, +block_mean");
  }
}

// `name`, `name:static:head`, `name+bias_removed-hadamard`.
KvFormat ParseNamed(std::string_view text) {
  const size_t modifiers = text.find_first_of("+-");
  const std::vector<std::string_view> parts = Split(text.substr(0, modifiers), ':');
  const KvFormat* named = FindNamed(parts.front());
  if (named == nullptr) {
    Refuse(text, fmt::format("'{}' is not a format", parts.front()), KnownNames(parts.front()));
  }
  KvFormat format = *named;
  const std::vector<std::string_view> attributes(parts.begin() + 1, parts.end());
  if (!attributes.empty()) {
    // A static scale replaces what the name says of scales; the codec and the writing stay.
    const bool is_static =
        std::find(attributes.begin(), attributes.end(), "static") != attributes.end();
    for (StreamFormat* stream : {&format.k, &format.v}) {
      if (is_static) *stream = Plain(stream->codec);
      ApplyAttributes(text, attributes, stream);
    }
  }
  for (size_t at = modifiers; at != std::string_view::npos;) {
    const size_t next = text.find_first_of("+-", at + 1);
    ApplyModifier(text, text[at], text.substr(at + 1, next - at - 1), &format);
    at = next;
  }
  return format;
}

void ParseSetting(std::string_view part, KvFormat* format) {
  const size_t equals = part.find('=');
  const std::string_view key = part.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
  if (key == "k") {
    format->k = ParseStream(value, true);
  } else if (key == "v") {
    format->v = ParseStream(value, false);
  } else if (key == "write") {
    if (value != "append" && value != "sealed") Refuse(part, "unknown", "append or sealed");
    format->write = value == "append" ? WriteMode::kAppend : WriteMode::kSealed;
  } else if (key == "sink_tokens" || key == "recent_tokens") {
    const auto tokens = ParseNumber<uint32_t>(value);
    if (!tokens || *tokens > kMaxProtectedTokens) {
      Refuse(part, "not a number of tokens", fmt::format("0 … {}", kMaxProtectedTokens));
    }
    (key == "sink_tokens" ? format->sink_tokens : format->recent_tokens) = *tokens;
  } else if (key == "q" || key == "p") {
    if (value != "fp8_e4m3" && value != "none") Refuse(part, "unknown", "fp8_e4m3 or none");
    const Rounding rounding = value == "none" ? Rounding::kNone : Rounding::kFp8E4m3;
    (key == "q" ? format->query_rounding : format->probability_rounding) = rounding;
  } else {
    Refuse(part, fmt::format("'{}' is not a setting", key),
           "settings: k, v, write, sink_tokens, recent_tokens, q, p");
  }
}

// --- What cannot be ----------------------------------------------------------------------------

void Check16Bit(std::string_view part, const StreamFormat& s) {
  const bool plain = s.granularity == Granularity::kNone && s.source == ScaleSource::kUnit &&
                     !s.zero_point && !s.hadamard && s.clip == 1.0F &&
                     s.centering != Centering::kBlockMean &&
                     s.scale_storage == ScaleStorage::kFp16;
  if (!plain) {
    Refuse(part, "a 16- or 32-bit codec has no scale, zero point, Hadamard, block_mean or clip",
           "only bias_removed may be added, on K");
  }
}

void CheckStatic(std::string_view part, const StreamFormat& s) {
  if (s.granularity != Granularity::kTensor && s.granularity != Granularity::kHead &&
      s.granularity != Granularity::kChannel) {
    Refuse(part, "static scales span a tensor, head or channel", "add tensor, head or channel");
  }
  if (s.zero_point) Refuse(part, "static scales have no zero point", "drop zp or static");
  if (s.hadamard) {
    Refuse(part, "static scales are measured on unrotated values", "drop hadamard or static");
  }
}

void CheckDynamic(std::string_view part, const StreamFormat& s) {
  if (s.granularity == Granularity::kTensor || s.granularity == Granularity::kHead) {
    Refuse(part, "a dynamic scale cannot span tokens of other blocks",
           "use channel (within the block), token_head or groupN, or a static scale");
  }
  if (s.zero_point && !IsInteger(s.codec)) {
    Refuse(part, "a floating-point codec has no zero point", "drop zp");
  }
}

void CheckStream(std::string_view part, const StreamFormat& s, bool is_key) {
  if (!is_key && s.centering != Centering::kNone) {
    Refuse(part, "V has no bias_removed or block_mean", "they belong to K");
  }
  if (s.granularity != Granularity::kGroup && s.group != 32) {
    Refuse(part, "a group size without groups", "use groupN");
  }
  if (!IsQuantized(s.codec)) {
    Check16Bit(part, s);
    return;
  }
  if (s.granularity == Granularity::kNone) {
    Refuse(part, "a codec of 8 bits or fewer needs a scale",
           "add tensor, head, channel, token_head or groupN");
  }
  if (s.granularity == Granularity::kGroup && (s.group < 16 || s.group > 512 || s.group % 16 != 0)) {
    Refuse(part, fmt::format("a group of {} channels", s.group), "multiples of 16 up to 512");
  }
  if (s.source == ScaleSource::kStatic) CheckStatic(part, s);
  if (s.source == ScaleSource::kDynamic) CheckDynamic(part, s);
  if (s.source == ScaleSource::kUnit) {
    const bool whole =
        s.granularity == Granularity::kTensor || s.granularity == Granularity::kHead;
    if (IsInteger(s.codec) || !whole || s.zero_point) {
      Refuse(part, "a scale of 1.0 is for fp8 with one scale per tensor or head",
             "add static or dynamic");
    }
  }
  if (s.source != ScaleSource::kDynamic) {
    if (s.scale_storage != ScaleStorage::kFp16) {
      Refuse(part, "scales that are not dynamic are not stored in blocks", "drop …_scale");
    }
    if (s.clip != 1.0F) Refuse(part, "clip needs a dynamic scale", "drop clip");
  }
  if (s.scale_storage == ScaleStorage::kFp32Packed &&
      !(s.codec == Codec::kInt4 && s.zero_point && s.granularity == Granularity::kTokenHead)) {
    Refuse(part, "packed_scale is int4 with a zero point per token and head", "drop packed_scale");
  }
  if (!(s.clip > 0.0F && s.clip <= 1.0F)) {
    Refuse(part, fmt::format("clip {} is outside (0, 1]", s.clip), "for example clip0.95");
  }
  if (s.centering == Centering::kBlockMean && s.granularity == Granularity::kChannel &&
      s.zero_point) {
    Refuse(part, "block_mean does nothing where every channel has a zero point",
           "drop block_mean");
  }
}

void CheckAppend(std::string_view part, const KvFormat& format) {
  if (format.sink_tokens != 0 || format.recent_tokens != 0) {
    Refuse(part, "write=append keeps no token in 16 bits",
           "drop sink_tokens and recent_tokens, or use write=sealed");
  }
  for (const StreamFormat* s : {&format.k, &format.v}) {
    if (s->granularity == Granularity::kChannel && s->source == ScaleSource::kDynamic) {
      Refuse(part, "write=append cannot have a scale that spans tokens",
             "use write=sealed, token_head or a static scale");
    }
    if (s->centering == Centering::kBlockMean) {
      Refuse(part, "write=append cannot remove a mean over tokens", "use write=sealed");
    }
  }
}

void CheckConsistent(std::string_view part, const KvFormat& format) {
  CheckStream(part, format.k, true);
  CheckStream(part, format.v, false);
  if (format.write == WriteMode::kAppend) CheckAppend(part, format);
}

std::string SettingsText(const KvFormat& format) {
  std::string text;
  if (format.sink_tokens != 0) text += fmt::format(",sink_tokens={}", format.sink_tokens);
  if (format.recent_tokens != 0) text += fmt::format(",recent_tokens={}", format.recent_tokens);
  return text;
}

struct Spelling {
  std::string text;
  KvFormat format;
};

// Every name with every modifier that makes sense, shortest spellings first.
std::vector<Spelling> MakeSpellings() {
  std::vector<Spelling> spellings;
  for (const char* scales : {"", ":static", ":static:head", ":static:channel"}) {
    for (const char* rotation : {"", "+hadamard", "-hadamard"}) {
      for (const char* centering : {"", "+bias_removed", "+block_mean"}) {
        for (const NamedFormat& named : NamedFormats()) {
          const std::string text = fmt::format("{}{}{}{}", named.name, scales, rotation, centering);
          const KvFormat format = ParseNamed(text);
          try {
            CheckConsistent(text, format);
          } catch (const Error&) {
            continue;
          }
          spellings.push_back({text, format});
        }
      }
    }
  }
  return spellings;
}

// The name and modifiers that give exactly this format, if there are any.
std::optional<std::string> NameOf(const KvFormat& format) {
  static const std::vector<Spelling> spellings = MakeSpellings();
  KvFormat bare = format;
  bare.sink_tokens = 0;
  bare.recent_tokens = 0;
  for (const Spelling& spelling : spellings) {
    if (spelling.format == bare) return spelling.text + SettingsText(format);
  }
  return std::nullopt;
}

}  // namespace

uint32_t CodecBits(Codec codec) {
  switch (codec) {
    case Codec::kFp32: return 32;
    case Codec::kBf16:
    case Codec::kFp16: return 16;
    case Codec::kFp8E4m3:
    case Codec::kFp8E5m2:
    case Codec::kInt8: return 8;
    case Codec::kInt4: return 4;
    case Codec::kInt2: return 2;
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
    Refuse(text.substr(0, 64), fmt::format("{} characters", text.size()),
           fmt::format("1 … {} characters; {}", kMaxTextBytes, KnownNames("")));
  }
  const std::vector<std::string_view> parts = Split(text, ',');
  KvFormat format;
  size_t next = 0;
  if (!parts.front().starts_with("k=") && !parts.front().starts_with("v=")) {
    format = ParseNamed(parts.front());
    next = 1;
  }
  std::vector<std::string_view> seen;
  for (; next < parts.size(); ++next) {
    const std::string_view key = parts[next].substr(0, parts[next].find('='));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      Refuse(parts[next], fmt::format("'{}' stands twice", key), "give each setting once");
    }
    seen.push_back(key);
    ParseSetting(parts[next], &format);
  }
  CheckConsistent(text, format);
  return format;
}

std::string ToString(const KvFormat& format) {
  if (std::optional<std::string> name = NameOf(format)) return *name;
  std::string text = fmt::format("k={},v={}", StreamText(format.k), StreamText(format.v));
  // Names carry their write mode; the full grammar says it.
  text += format.write == WriteMode::kAppend ? ",write=append" : ",write=sealed";
  text += SettingsText(format);
  if (format.query_rounding == Rounding::kFp8E4m3) text += ",q=fp8_e4m3";
  if (format.probability_rounding == Rounding::kFp8E4m3) text += ",p=fp8_e4m3";
  return text;
}

void ValidateKvFormat(const KvFormat& format, uint32_t head_dim) {
  const std::string text = ToString(format);
  CheckConsistent(text, format);
  if (head_dim < 16 || head_dim > 512 || head_dim % 16 != 0) {
    Refuse(text, fmt::format("head_dim {}", head_dim), "multiples of 16 up to 512");
  }
  for (const StreamFormat* s : {&format.k, &format.v}) {
    if (s->granularity == Granularity::kGroup && head_dim % s->group != 0) {
      Refuse(text, fmt::format("groups of {} do not divide head_dim {}", s->group, head_dim),
             "choose another group size");
    }
    if (s->hadamard && !HasHadamard(head_dim)) {
      Refuse(text, fmt::format("there is no Hadamard matrix of size {} here", head_dim),
             "use -hadamard");
    }
  }
}

double BitsPerValue(const StreamFormat& stream, uint32_t head_dim) {
  double bits = CodecBits(stream.codec);
  if (stream.centering == Centering::kBlockMean) bits += 16.0 / kBlockTokens;
  if (stream.source != ScaleSource::kDynamic) return bits;
  const double scale_bits = stream.scale_storage == ScaleStorage::kFp16 ? 16 : 32;
  const bool has_offset =
      stream.zero_point && stream.scale_storage != ScaleStorage::kFp32Packed;
  const double per_scale = scale_bits * (has_offset ? 2 : 1);
  switch (stream.granularity) {
    case Granularity::kChannel: return bits + per_scale / kBlockTokens;
    case Granularity::kTokenHead: return bits + per_scale / head_dim;
    case Granularity::kGroup: return bits + per_scale / stream.group;
    default: return bits;
  }
}

}  // namespace kvant
