#include "kvant/format/kv_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/format/hadamard.h"

namespace kvant {

namespace {

constexpr std::string_view kSkip = "skip=";

[[noreturn]] void RefuseSkip(std::string_view item, const std::string& why) {
  throw Error(ErrorCode::kUsage, fmt::format("skip '{}': {}", item, why),
              "write skip=0,1,4-7 or skip=sliding_window, last in the plan");
}

std::optional<uint32_t> LayerNumber(std::string_view text) {
  uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

void MarkSkipped(std::string_view item, const KvGeometry& geometry, std::vector<bool>* skipped) {
  if (item == "sliding_window") {
    bool any = false;
    for (size_t layer = 0; layer < geometry.sliding_window.size(); ++layer) {
      if (!geometry.sliding_window[layer]) continue;
      (*skipped)[layer] = true;
      any = true;
    }
    if (!any) RefuseSkip(item, "the model has no sliding-window layers");
    return;
  }
  const size_t dash = item.find('-');
  const std::optional<uint32_t> first = LayerNumber(item.substr(0, dash));
  const std::optional<uint32_t> last =
      dash == std::string_view::npos ? first : LayerNumber(item.substr(dash + 1));
  if (!first || !last || *first > *last) RefuseSkip(item, "not a layer or a range of layers");
  if (*last >= geometry.num_layers) {
    RefuseSkip(item, fmt::format("the model has layers 0 … {}", geometry.num_layers - 1));
  }
  for (uint32_t layer = *first; layer <= *last; ++layer) (*skipped)[layer] = true;
}

std::vector<bool> ParseSkip(std::string_view list, const KvGeometry& geometry) {
  std::vector<bool> skipped(geometry.num_layers, false);
  while (true) {
    const size_t comma = list.find(',');
    MarkSkipped(list.substr(0, comma), geometry, &skipped);
    if (comma == std::string_view::npos) return skipped;
    list.remove_prefix(comma + 1);
  }
}

KvFormat SixteenBit(const KvFormat& like) {
  KvFormat format;  // bf16
  if (like.k.centering == Centering::kBiasRemoved) {
    format.k.centering = Centering::kBiasRemoved;
  }
  return format;
}

void CheckScales(const KvPlan& plan, const KvGeometry& geometry) {
  const ScaleSet& scales = *plan.scales;
  ValidateScaleSet(scales, "scales of plan " + plan.name);
  const bool fits = scales.layers.size() == geometry.num_layers &&
                    scales.num_kv_heads == geometry.num_kv_heads &&
                    scales.head_dim == geometry.head_dim;
  if (!fits) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the scales are for {} layers of {} heads of {}; the model has {} of "
                            "{} of {}",
                            scales.layers.size(), scales.num_kv_heads, scales.head_dim,
                            geometry.num_layers, geometry.num_kv_heads, geometry.head_dim));
  }
  for (const KvFormat& format : plan.layers) {
    for (const StreamFormat* stream : {&format.k, &format.v}) {
      if (stream->source != ScaleSource::kStatic) continue;
      if (stream->granularity != scales.granularity || stream->codec != scales.codec) {
        throw Error(ErrorCode::kInvalidInput,
                    fmt::format("plan '{}' wants static scales of another codec or granularity "
                                "than the scale file has",
                                plan.name),
                    "calibrate with the plan's codec and granularity");
      }
    }
  }
}

}  // namespace

KvPlan MakeKvPlan(std::string_view text, const KvGeometry& geometry,
                  std::shared_ptr<const ScaleSet> scales) {
  KvPlan plan;
  plan.name = std::string(text);
  const size_t at = text.find(std::string(",") + std::string(kSkip));
  const KvFormat format = ParseKvFormat(text.substr(0, at));
  ValidateKvFormat(format, geometry.head_dim);
  const std::vector<bool> skipped =
      at == std::string_view::npos ? std::vector<bool>(geometry.num_layers, false)
                                   : ParseSkip(text.substr(at + 1 + kSkip.size()), geometry);
  bool needs_scales = false;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    KvFormat own = skipped[layer] ? SixteenBit(format) : format;
    if (own.k.centering == Centering::kBiasRemoved &&
        (geometry.has_k_bias.size() <= layer || !geometry.has_k_bias[layer])) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("plan '{}': layer {} has no K bias to remove", text, layer),
                  "drop bias_removed");
    }
    needs_scales = needs_scales || NeedsStaticScales(own);
    plan.layers.push_back(own);
  }
  if (needs_scales) {
    if (scales == nullptr) {
      throw Error(ErrorCode::kUsage, fmt::format("plan '{}' needs calibrated scales", text),
                  "make them with kvant calibrate; a missing scale never becomes 1.0");
    }
    plan.scales = std::move(scales);
    CheckScales(plan, geometry);
  }
  return plan;
}

Digest PlanDigest(const KvPlan& plan) {
  Sha256 digest;
  digest.Field("kvant-plan");
  digest.Field(static_cast<uint64_t>(plan.layers.size()));
  bool rotated = false;
  for (const KvFormat& format : plan.layers) {
    digest.Field(ToString(format));
    rotated = rotated || format.k.hadamard || format.v.hadamard;
  }
  digest.Field(rotated ? HadamardIdentity() : std::string());
  if (plan.scales != nullptr) {
    digest.Field(ScaleSetDigest(*plan.scales));
  } else {
    digest.Field(std::string_view("no scales"));
  }
  return digest.Finish();
}

std::string DescribePlan(const KvPlan& plan) {
  std::vector<std::pair<std::string, std::vector<uint32_t>>> formats;
  for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
    const std::string text = ToString(plan.layers[layer]);
    auto it = std::find_if(formats.begin(), formats.end(),
                           [&](const auto& entry) { return entry.first == text; });
    if (it == formats.end()) it = formats.insert(formats.end(), {text, {}});
    it->second.push_back(layer);
  }
  if (formats.size() == 1) return formats.front().first + " on every layer";
  std::string description;
  for (const auto& [text, layers] : formats) {
    description += fmt::format("{}{} on layers {}", description.empty() ? "" : "\n", text,
                               fmt::join(layers, ","));
  }
  return description;
}

}  // namespace kvant
