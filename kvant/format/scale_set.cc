#include "kvant/format/scale_set.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "kvant/core/error.h"

namespace kvant {

namespace {

constexpr float kSmallestScale = 0x1.0p-40F;
constexpr float kLargestScale = 0x1.0p40F;

size_t ScalesPerLayer(const ScaleSet& scales, const std::string& source) {
  switch (scales.granularity) {
    case Granularity::kTensor:
      return 1;
    case Granularity::kHead:
      return scales.num_kv_heads;
    case Granularity::kChannel:
      return size_t{scales.num_kv_heads} * scales.head_dim;
    default:
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: static scales span a tensor, head or channel", source));
  }
}

void CheckScales(const std::vector<float>& values, size_t expected, size_t layer, char stream,
                 const std::string& source) {
  if (values.size() != expected) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{}: layer {} has {} {} scales instead of {}", source, layer,
                            values.size(), stream, expected));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool usable =
        std::isfinite(values[i]) && values[i] >= kSmallestScale && values[i] <= kLargestScale;
    if (usable) continue;
    throw Error(
        ErrorCode::kInvalidInput,
        fmt::format("{}: {} scale {} of layer {} is {}", source, stream, i, layer, values[i]),
        "scales are finite, positive and between 2^-40 and 2^40: calibrate again");
  }
}

void AddValues(Sha256* digest, const std::vector<float>& values) {
  digest->Field(static_cast<uint64_t>(values.size()));
  for (const float value : values) digest->Field(uint64_t{std::bit_cast<uint32_t>(value)});
}

}  // namespace

void ValidateScaleSet(const ScaleSet& scales, const std::string& source) {
  if (scales.layers.empty() || scales.num_kv_heads == 0 || scales.head_dim == 0) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{}: no layers, heads or channels", source));
  }
  const size_t expected = ScalesPerLayer(scales, source);
  for (size_t layer = 0; layer < scales.layers.size(); ++layer) {
    CheckScales(scales.layers[layer].k, expected, layer, 'K', source);
    CheckScales(scales.layers[layer].v, expected, layer, 'V', source);
  }
}

Digest ScaleSetDigest(const ScaleSet& scales) {
  Sha256 digest;
  digest.Field("kvant-scales");
  digest.Field(static_cast<uint64_t>(scales.codec));
  digest.Field(static_cast<uint64_t>(scales.granularity));
  digest.Field(uint64_t{scales.num_kv_heads});
  digest.Field(uint64_t{scales.head_dim});
  digest.Field(static_cast<uint64_t>(scales.layers.size()));
  for (const LayerScales& layer : scales.layers) {
    AddValues(&digest, layer.k);
    AddValues(&digest, layer.v);
  }
  return digest.Finish();
}

}  // namespace kvant
