#include "kvant/format/named_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kvant/core/error.h"

namespace kvant {

namespace {

constexpr std::array<std::pair<std::string_view, Codec>, 8> kCodecNames = {
    {{"fp32", Codec::kFp32},
     {"bf16", Codec::kBf16},
     {"fp16", Codec::kFp16},
     {"fp8_e4m3", Codec::kFp8E4m3},
     {"fp8_e5m2", Codec::kFp8E5m2},
     {"int8", Codec::kInt8},
     {"int4", Codec::kInt4},
     {"int2", Codec::kInt2}}};

// A name is a typing mistake of another if no more than this many letters differ.
constexpr size_t kCloseEnough = 3;
constexpr size_t kLongestName = 64;

StreamFormat Plain(Codec codec) {
  StreamFormat stream;
  stream.codec = codec;
  return stream;
}

StreamFormat PerTensor(Codec codec, ScaleSource source) {
  StreamFormat stream = Plain(codec);
  stream.granularity = Granularity::kTensor;
  stream.source = source;
  return stream;
}

StreamFormat Symmetric(Codec codec, Granularity granularity, ScaleStorage storage) {
  StreamFormat stream = Plain(codec);
  stream.granularity = granularity;
  stream.source = ScaleSource::kDynamic;
  stream.scale_storage = storage;
  return stream;
}

StreamFormat Affine(Codec codec, Granularity granularity) {
  StreamFormat stream = Symmetric(codec, granularity, ScaleStorage::kFp16);
  stream.zero_point = true;
  return stream;
}

KvFormat Pair(const StreamFormat& k, const StreamFormat& v, WriteMode write) {
  KvFormat format;
  format.k = k;
  format.v = v;
  format.write = write;
  return format;
}

KvFormat Both(const StreamFormat& stream, WriteMode write) { return Pair(stream, stream, write); }

// K varies most between channels, V between tokens; V at 4 bits gains from rotation, K per channel
// does not.
KvFormat Ours(Codec codec) {
  StreamFormat v = Affine(codec, Granularity::kTokenHead);
  v.hadamard = codec == Codec::kInt4;
  return Pair(Affine(codec, Granularity::kChannel), v, WriteMode::kSealed);
}

KvFormat VllmInt4PerTokenHead() {
  StreamFormat stream = Symmetric(Codec::kInt4, Granularity::kTokenHead, ScaleStorage::kFp32Packed);
  stream.zero_point = true;
  stream.hadamard = true;
  return Both(stream, WriteMode::kAppend);
}

KvFormat VllmFp8() {
  KvFormat format = Both(PerTensor(Codec::kFp8E4m3, ScaleSource::kStatic), WriteMode::kAppend);
  format.query_rounding = Rounding::kFp8E4m3;
  format.probability_rounding = Rounding::kFp8E4m3;
  return format;
}

std::vector<NamedFormat> MakeNamedFormats() {
  const auto per_token_head = [](Codec codec) {
    return Both(Symmetric(codec, Granularity::kTokenHead, ScaleStorage::kFp32), WriteMode::kAppend);
  };
  const auto groups = [](Codec codec) {
    return Both(Symmetric(codec, Granularity::kGroup, ScaleStorage::kFp16), WriteMode::kSealed);
  };
  const auto unit = [](Codec codec) {
    return Both(PerTensor(codec, ScaleSource::kUnit), WriteMode::kAppend);
  };
  return {
      {"fp32", Both(Plain(Codec::kFp32), WriteMode::kSealed)},
      {"bf16", Both(Plain(Codec::kBf16), WriteMode::kSealed)},
      {"fp16", Both(Plain(Codec::kFp16), WriteMode::kSealed)},
      {"int8", Ours(Codec::kInt8)},
      {"int4", Ours(Codec::kInt4)},
      {"int2", Both(Affine(Codec::kInt2, Granularity::kTokenHead), WriteMode::kSealed)},
      {"q8_0", groups(Codec::kInt8)},
      {"q4_0", groups(Codec::kInt4)},
      {"fp8_e4m3", unit(Codec::kFp8E4m3)},
      {"fp8_e5m2", unit(Codec::kFp8E5m2)},
      {"vllm_fp8", VllmFp8()},
      {"fp8_per_token_head", per_token_head(Codec::kFp8E4m3)},
      {"int8_per_token_head", per_token_head(Codec::kInt8)},
      {"int4_per_token_head", VllmInt4PerTokenHead()},
  };
}

// Levenshtein's distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<NamedFormat>& NamedFormats() {
  static const std::vector<NamedFormat> formats = MakeNamedFormats();
  return formats;
}

const KvFormat* FindNamedFormat(std::string_view name) {
  for (const NamedFormat& candidate : NamedFormats()) {
    if (candidate.name == name) return &candidate.format;
  }
  return nullptr;
}

std::string KnownFormatNames(std::string_view near) {
  std::vector<std::string_view> names;
  std::string_view closest;
  size_t distance = kCloseEnough + 1;
  for (const NamedFormat& format : NamedFormats()) {
    names.push_back(format.name);
    const size_t this_distance = EditDistance(near.substr(0, kLongestName), format.name);
    if (this_distance >= distance) continue;
    distance = this_distance;
    closest = format.name;
  }
  const std::string list = fmt::format("formats: {}", fmt::join(names, ", "));
  return closest.empty() || near.empty() ? list : fmt::format("did you mean {}? {}", closest, list);
}

std::string_view CodecName(Codec codec) {
  for (const auto& [name, value] : kCodecNames) {
    if (value == codec) return name;
  }
  KVANT_CHECK(false);
}

std::optional<Codec> CodecFromName(std::string_view text) {
  for (const auto& [name, value] : kCodecNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace kvant
