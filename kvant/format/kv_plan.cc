#include "kvant/format/kv_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/format/hadamard.h"
#include "kvant/format/named_formats.h"

namespace kvant {

namespace {

constexpr std::string_view kSkip = ",skip=";
constexpr size_t kMaxSkipBytes = 4096;

[[noreturn]] void RefuseSkip(std::string_view item, const std::string& why) {
  throw Error(ErrorCode::kUsage, fmt::format("skip '{}': {}", item.substr(0, 40), why),
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
    RefuseSkip(item, fmt::format("the model has layers 0 to {}", geometry.num_layers - 1));
  }
  for (uint32_t layer = *first; layer <= *last; ++layer) (*skipped)[layer] = true;
}

// Which layers `list`, as in `0,1,4-7,sliding_window`, names.
std::vector<bool> ParseSkip(std::string_view list, const KvGeometry& geometry) {
  if (list.size() > kMaxSkipBytes) {
    RefuseSkip(list, fmt::format("{} characters, more than {}", list.size(), kMaxSkipBytes));
  }
  std::vector<bool> skipped(geometry.num_layers, false);
  while (true) {
    const size_t comma = list.find(',');
    MarkSkipped(list.substr(0, comma), geometry, &skipped);
    if (comma == std::string_view::npos) return skipped;
    list.remove_prefix(comma + 1);
  }
}

void CheckGeometry(const KvGeometry& geometry) {
  const auto one_per_layer = [&geometry](const std::vector<bool>& flags) {
    return flags.empty() || flags.size() == geometry.num_layers;
  };
  if (geometry.num_layers == 0 || geometry.num_kv_heads == 0 ||
      !one_per_layer(geometry.sliding_window) || !one_per_layer(geometry.has_k_bias)) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("a model of {} layers and {} KV heads, with {} "
                            "sliding-window and {} "
                            "K-bias flags, can have no plan",
                            geometry.num_layers, geometry.num_kv_heads,
                            geometry.sliding_window.size(), geometry.has_k_bias.size()));
  }
}

// A skipped layer: bf16, with K still centred where the plan's K is.
KvFormat SkippedFormat(const KvFormat& plan_format) {
  KvFormat format;
  if (plan_format.k.centering == Centering::kBiasRemoved) {
    format.k.centering = Centering::kBiasRemoved;
  }
  return format;
}

void CheckBias(const KvPlan& plan, const KvGeometry& geometry) {
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    if (plan.layers[layer].k.centering != Centering::kBiasRemoved) continue;
    if (!geometry.has_k_bias.empty() && geometry.has_k_bias[layer]) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("plan '{}': layer {} has no K bias to remove", plan.name, layer),
                "drop bias_removed");
  }
}

const char* GranularityWord(Granularity granularity) {
  switch (granularity) {
    case Granularity::kTensor:
      return "tensor";
    case Granularity::kHead:
      return "head";
    case Granularity::kChannel:
      return "channel";
    default:
      return "neither tensor, head nor channel";
  }
}

std::string ScaleKind(Codec codec, Granularity granularity) {
  return fmt::format("{} per {}", CodecName(codec), GranularityWord(granularity));
}

// That the scales are this model's, and what every stream with static scales asks for.
void CheckScales(const KvPlan& plan, const KvGeometry& geometry) {
  const ScaleSet& scales = *plan.scales;
  ValidateScaleSet(scales, fmt::format("scales of plan '{}'", plan.name));
  if (scales.layers.size() != geometry.num_layers || scales.num_kv_heads != geometry.num_kv_heads ||
      scales.head_dim != geometry.head_dim) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the scales are for {} layers of {} KV heads of {} "
                            "channels; the model "
                            "has {} of {} of {}",
                            scales.layers.size(), scales.num_kv_heads, scales.head_dim,
                            geometry.num_layers, geometry.num_kv_heads, geometry.head_dim),
                "use scales that were made for this model");
  }
  for (const KvFormat& format : plan.layers) {
    for (const StreamFormat* stream : {&format.k, &format.v}) {
      if (stream->source != ScaleSource::kStatic) continue;
      if (stream->granularity == scales.granularity && stream->codec == scales.codec) continue;
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("plan '{}' needs scales for {}; these are for {}", plan.name,
                              ScaleKind(stream->codec, stream->granularity),
                              ScaleKind(scales.codec, scales.granularity)),
                  "calibrate with the plan's codec and granularity");
    }
  }
}

// `0-3,7`: ranges where layers are neighbours.
std::string LayerList(const std::vector<size_t>& layers) {
  std::string text;
  for (size_t first = 0; first < layers.size();) {
    size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", layers[first]);
    if (last > first) text += fmt::format("-{}", layers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace

KvPlan MakeKvPlan(std::string_view text, const KvGeometry& geometry,
                  std::shared_ptr<const ScaleSet> scales) {
  CheckGeometry(geometry);
  const size_t skip = text.find(kSkip);
  const KvFormat format = ParseKvFormat(text.substr(0, skip));
  ValidateKvFormat(format, geometry.head_dim);
  std::vector<bool> skipped(geometry.num_layers, false);
  if (skip != std::string_view::npos) {
    skipped = ParseSkip(text.substr(skip + kSkip.size()), geometry);
  }
  KvPlan plan;
  plan.name = std::string(text);
  for (size_t layer = 0; layer < geometry.num_layers; ++layer) {
    plan.layers.push_back(skipped[layer] ? SkippedFormat(format) : format);
  }
  CheckBias(plan, geometry);
  if (!std::any_of(plan.layers.begin(), plan.layers.end(), NeedsStaticScales)) return plan;
  if (scales == nullptr) {
    throw Error(ErrorCode::kUsage, fmt::format("plan '{}' needs calibrated scales", text),
                "make them with kvant calibrate; a missing scale never becomes 1.0");
  }
  plan.scales = std::move(scales);
  CheckScales(plan, geometry);
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
  struct Entry {
    std::string format;
    std::vector<size_t> layers;
  };
  std::vector<Entry> entries;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const std::string text = ToString(plan.layers[layer]);
    auto entry = std::find_if(entries.begin(), entries.end(),
                              [&text](const Entry& known) { return known.format == text; });
    if (entry == entries.end()) entry = entries.insert(entries.end(), {text, {}});
    entry->layers.push_back(layer);
  }
  if (entries.size() == 1) return entries.front().format + " on every layer";
  std::string description;
  for (const Entry& entry : entries) {
    description +=
        fmt::format("{}{} on {} {}", description.empty() ? "" : "\n", entry.format,
                    entry.layers.size() == 1 ? "layer" : "layers", LayerList(entry.layers));
  }
  return description;
}

}  // namespace kvant
