#include "kvant/calibrate/scale_file.h"

#include <fmt/format.h>

#include <utility>

#include "kvant/calibrate/safetensors.h"
#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/json.h"

namespace kvant {

namespace {

constexpr uint64_t kMaxScaleFileBytes = 256ULL << 20;
constexpr int kVersion = 1;

const std::vector<std::pair<Codec, std::string>> kCodecs = {{Codec::kFp8E4m3, "fp8_e4m3"},
                                                            {Codec::kFp8E5m2, "fp8_e5m2"},
                                                            {Codec::kInt8, "int8"},
                                                            {Codec::kInt4, "int4"}};
const std::vector<std::pair<Granularity, std::string>> kGranularities = {
    {Granularity::kTensor, "tensor"},
    {Granularity::kHead, "head"},
    {Granularity::kChannel, "channel"}};

template <typename T>
std::string NameOf(T value, const std::vector<std::pair<T, std::string>>& names) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  throw Error(ErrorCode::kUnsupported, "scales of this codec or granularity have no file format");
}

template <typename T>
T ValueOf(const std::string& text, const std::vector<std::pair<T, std::string>>& names,
          const std::string& source) {
  for (const auto& [value, name] : names) {
    if (name == text) return value;
  }
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: '{}' is not known", source, text));
}

Error Invalid(const std::string& source, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", source, what),
               "run kvant calibrate again");
}

// Members of a JSON object, with their types checked.
class Fields {
 public:
  Fields(const Json& object, std::string source) : object_(object), source_(std::move(source)) {
    if (!object.is_object()) throw Invalid(source_, "not a JSON object");
  }
  const Json& Get(const std::string& key) const {
    const auto it = object_.find(key);
    if (it == object_.end()) throw Invalid(source_, fmt::format("'{}' is missing", key));
    return *it;
  }
  std::string Text(const std::string& key) const {
    if (!Get(key).is_string()) throw Invalid(source_, fmt::format("'{}' is not text", key));
    return Get(key).get<std::string>();
  }
  uint64_t Unsigned(const std::string& key) const {
    if (!Get(key).is_number_unsigned()) {
      throw Invalid(source_, fmt::format("'{}' is not a whole number", key));
    }
    return Get(key).get<uint64_t>();
  }
  double Number(const std::string& key) const {
    if (!Get(key).is_number()) throw Invalid(source_, fmt::format("'{}' is not a number", key));
    return Get(key).get<double>();
  }
  const Json& Array(const std::string& key) const {
    if (!Get(key).is_array()) throw Invalid(source_, fmt::format("'{}' is not a list", key));
    return Get(key);
  }

 private:
  const Json& object_;
  std::string source_;
};

std::vector<float> ParseScales(const Json& list, const std::string& source) {
  std::vector<float> values;
  for (const Json& value : list) {
    if (!value.is_number()) throw Invalid(source, "a scale is not a number");
    values.push_back(value.get<float>());
  }
  return values;
}

uint32_t Small(uint64_t value, const char* what, const std::string& source) {
  if (value == 0 || value > 65536) {
    throw Invalid(source, fmt::format("{} = {} is out of range", what, value));
  }
  return static_cast<uint32_t>(value);
}

std::vector<uint64_t> ShapeOf(const ScaleSet& scales) {
  switch (scales.granularity) {
    case Granularity::kTensor:
      return {1};
    case Granularity::kHead:
      return {scales.num_kv_heads, 1, 1};
    default:
      return {scales.num_kv_heads, 1, scales.head_dim};
  }
}

}  // namespace

void WriteScaleFiles(const std::filesystem::path& prefix, const CalibratedScales& calibrated) {
  const ScaleSet& scales = calibrated.scales;
  ValidateScaleSet(scales, prefix.string());
  Json layers = Json::array();
  SafetensorsFile file;
  for (size_t i = 0; i < scales.layers.size(); ++i) {
    layers.push_back({{"k", scales.layers[i].k}, {"v", scales.layers[i].v}});
    const std::string name = fmt::format("model.layers.{}.self_attn.", i);
    file.tensors[name + "k_scale"] = {ShapeOf(scales), scales.layers[i].k};
    file.tensors[name + "v_scale"] = {ShapeOf(scales), scales.layers[i].v};
  }
  const ScaleProvenance& p = calibrated.provenance;
  const Json document = {{"format", "kvant-scales"},
                         {"version", kVersion},
                         {"codec", NameOf(scales.codec, kCodecs)},
                         {"granularity", NameOf(scales.granularity, kGranularities)},
                         {"num_kv_heads", scales.num_kv_heads},
                         {"head_dim", scales.head_dim},
                         {"model_sha256", p.model_digest},
                         {"model_name", p.model_name},
                         {"text_sha256", p.text_digest},
                         {"tokens", p.tokens},
                         {"sequence_lengths", p.sequence_lengths},
                         {"percentile", p.percentile},
                         {"layers", layers}};
  file.metadata = {{"format", "pt"}, {"model_sha256", p.model_digest}};
  WriteFileAtomically(prefix.string() + ".json", document.dump(1) + "\n");
  WriteFileAtomically(prefix.string() + ".safetensors", SerializeSafetensors(file));
}

CalibratedScales ParseScaleJson(std::string_view text, const std::string& source) {
  const Json document = ParseJson(text, source);
  const Fields fields(document, source);
  if (fields.Text("format") != "kvant-scales") throw Invalid(source, "not a Kvant scale file");
  if (fields.Unsigned("version") != kVersion) {
    throw Invalid(source,
                  fmt::format("version {} is not {}", fields.Unsigned("version"), kVersion));
  }
  CalibratedScales result;
  ScaleSet& scales = result.scales;
  scales.codec = ValueOf(fields.Text("codec"), kCodecs, source);
  scales.granularity = ValueOf(fields.Text("granularity"), kGranularities, source);
  scales.num_kv_heads = Small(fields.Unsigned("num_kv_heads"), "num_kv_heads", source);
  scales.head_dim = Small(fields.Unsigned("head_dim"), "head_dim", source);
  result.provenance.model_digest = fields.Text("model_sha256");
  result.provenance.model_name = fields.Text("model_name");
  result.provenance.text_digest = fields.Text("text_sha256");
  result.provenance.tokens = fields.Unsigned("tokens");
  for (const Json& length : fields.Array("sequence_lengths")) {
    if (!length.is_number_unsigned()) throw Invalid(source, "a length is not a whole number");
    result.provenance.sequence_lengths.push_back(length.get<uint64_t>());
  }
  result.provenance.percentile = fields.Number("percentile");
  for (const Json& layer : fields.Array("layers")) {
    const Fields parts(layer, source);
    scales.layers.push_back(
        {ParseScales(parts.Array("k"), source), ParseScales(parts.Array("v"), source)});
  }
  ValidateScaleSet(scales, source);
  return result;
}

CalibratedScales ReadScaleFile(const std::filesystem::path& path, const KvGeometry& geometry,
                               const std::string& model_digest) {
  const std::string source = path.string();
  CalibratedScales result = ParseScaleJson(ReadWholeFile(path, kMaxScaleFileBytes), source);
  if (result.provenance.model_digest != model_digest) {
    throw Invalid(source, fmt::format("made for model {} (SHA-256 {}), not for this one ({})",
                                      result.provenance.model_name, result.provenance.model_digest,
                                      model_digest));
  }
  const ScaleSet& scales = result.scales;
  if (scales.layers.size() != geometry.num_layers || scales.num_kv_heads != geometry.num_kv_heads ||
      scales.head_dim != geometry.head_dim) {
    throw Invalid(source,
                  fmt::format("{} layers of {} heads of {}; the model has {} of {} of {}",
                              scales.layers.size(), scales.num_kv_heads, scales.head_dim,
                              geometry.num_layers, geometry.num_kv_heads, geometry.head_dim));
  }
  return result;
}

ScaleSet ParseCompressedTensorsScales(std::string_view bytes, const std::string& source,
                                      const KvGeometry& geometry) {
  const SafetensorsFile file = ParseSafetensors(bytes, source);
  ScaleSet scales;
  scales.num_kv_heads = geometry.num_kv_heads;
  scales.head_dim = geometry.head_dim;
  bool first = true;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    LayerScales values;
    for (const bool is_key : {true, false}) {
      const std::string name =
          fmt::format("model.layers.{}.self_attn.{}_scale", layer, is_key ? "k" : "v");
      const auto it = file.tensors.find(name);
      if (it == file.tensors.end()) {
        throw Invalid(source, fmt::format("{} is missing; it does not default to 1.0", name));
      }
      const size_t count = it->second.values.size();
      const Granularity granularity = count == 1                       ? Granularity::kTensor
                                      : count == geometry.num_kv_heads ? Granularity::kHead
                                                                       : Granularity::kChannel;
      if (!first && granularity != scales.granularity) {
        throw Invalid(source, fmt::format("{} has another granularity than the first scale", name));
      }
      scales.granularity = granularity;
      first = false;
      (is_key ? values.k : values.v) = it->second.values;
    }
    scales.layers.push_back(std::move(values));
  }
  ValidateScaleSet(scales, source);
  return scales;
}

}  // namespace kvant
