#include "kvant/calibrate/kv_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvant/core/error.h"
#include "kvant/core/scalar.h"

namespace kvant {

void ChannelStatistics::Add(float value) {
  const float magnitude = std::fabs(value);
  ++count_;
  sum_ += value;
  largest_ = std::max(largest_, magnitude);
  int bucket = 0;
  if (magnitude > 0) {
    const float octaves = std::log2(magnitude) - static_cast<float>(kSmallestExponent);
    bucket = std::clamp(static_cast<int>(std::floor(octaves * kBucketsPerOctave)), 0, kBuckets - 1);
  }
  ++buckets_[bucket];
}

void ChannelStatistics::AddTo(ChannelStatistics* total) const {
  total->count_ += count_;
  total->sum_ += sum_;
  total->largest_ = std::max(total->largest_, largest_);
  for (int i = 0; i < kBuckets; ++i) total->buckets_[i] += buckets_[i];
}

float ChannelStatistics::Percentile(double percent) const {
  KVANT_CHECK(count_ > 0 && percent > 0 && percent <= 100);
  if (percent == 100) return largest_;
  const double wanted = static_cast<double>(count_) * percent / 100;
  uint64_t reached = 0;
  for (int i = 0; i < kBuckets; ++i) {
    reached += buckets_[i];
    if (static_cast<double>(reached) < wanted) continue;
    const double border =
        std::exp2(static_cast<double>(i + 1) / kBucketsPerOctave + kSmallestExponent);
    return std::min(static_cast<float>(border), largest_);
  }
  return largest_;
}

KvStatistics::KvStatistics(const KvGeometry& geometry) : geometry_(geometry) {
  const size_t channels = size_t{geometry.num_layers} * geometry.num_kv_heads * geometry.head_dim;
  k_.resize(channels);
  v_.resize(channels);
}

size_t KvStatistics::Index(uint32_t layer, uint32_t head, uint32_t channel) const {
  return (size_t{layer} * geometry_.num_kv_heads + head) * geometry_.head_dim + channel;
}

const ChannelStatistics& KvStatistics::k(uint32_t layer, uint32_t head, uint32_t channel) const {
  return k_[Index(layer, head, channel)];
}
const ChannelStatistics& KvStatistics::v(uint32_t layer, uint32_t head, uint32_t channel) const {
  return v_[Index(layer, head, channel)];
}

void KvStatistics::Observe(uint32_t layer, uint64_t /*first_position*/, size_t tokens,
                           const float* /*q*/, const float* k, const float* v) {
  const size_t width = size_t{geometry_.num_kv_heads} * geometry_.head_dim;
  const size_t base = Index(layer, 0, 0);
  for (size_t t = 0; t < tokens; ++t) {
    for (size_t i = 0; i < width; ++i) {
      const float key = k[t * width + i];
      const float value = v[t * width + i];
      if (std::isfinite(key)) k_[base + i].Add(key);
      if (std::isfinite(value)) v_[base + i].Add(value);
      non_finite_ += (std::isfinite(key) ? 0U : 1U) + (std::isfinite(value) ? 0U : 1U);
    }
  }
  if (layer == 0) tokens_ += tokens;
}

namespace {

// The magnitude that the largest code stands for at scale 1.
float LargestCode(Codec codec) {
  switch (codec) {
    case Codec::kFp8E4m3:
      return kFp8E4m3Max;
    case Codec::kFp8E5m2:
      return kFp8E5m2Max;
    case Codec::kInt8:
      return 127;
    case Codec::kInt4:
      return 7;
    default:
      throw Error(ErrorCode::kUsage, "this format has no static scales",
                  "they exist for fp8_e4m3, fp8_e5m2, int8 and int4");
  }
}

float Covered(const ChannelStatistics& channel, uint32_t layer, double percentile) {
  if (channel.count() == 0) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("layer {} has K or V that are never finite", layer),
                "the checkpoint is damaged, or its activations overflow");
  }
  return channel.Percentile(percentile);
}

std::vector<float> CoveredMagnitudes(const KvStatistics& statistics, uint32_t layer, bool is_key,
                                     Granularity granularity, double percentile) {
  const KvGeometry& g = statistics.geometry();
  std::vector<float> covered;
  ChannelStatistics pooled;
  for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
    for (uint32_t channel = 0; channel < g.head_dim; ++channel) {
      const ChannelStatistics& one =
          is_key ? statistics.k(layer, head, channel) : statistics.v(layer, head, channel);
      if (granularity == Granularity::kChannel) {
        covered.push_back(Covered(one, layer, percentile));
      } else {
        one.AddTo(&pooled);
      }
    }
    if (granularity == Granularity::kHead) {
      covered.push_back(Covered(pooled, layer, percentile));
      pooled = ChannelStatistics();
    }
  }
  if (granularity == Granularity::kTensor) covered.push_back(Covered(pooled, layer, percentile));
  return covered;
}

std::vector<float> ScalesOf(std::vector<float> covered, float largest_code) {
  float smallest = 0;
  for (const float magnitude : covered) {
    if (magnitude > 0 && (smallest == 0 || magnitude < smallest)) smallest = magnitude;
  }
  if (smallest == 0) smallest = 1;
  for (float& magnitude : covered) {
    if (magnitude == 0) magnitude = smallest;
    magnitude /= largest_code;
  }
  return covered;
}

}  // namespace

bool HasStaticScales(Codec codec) {
  return codec == Codec::kFp8E4m3 || codec == Codec::kFp8E5m2 || codec == Codec::kInt8 ||
         codec == Codec::kInt4;
}

ScaleSet ScalesFromStatistics(const KvStatistics& statistics, Codec codec, Granularity granularity,
                              double percentile) {
  if (statistics.tokens() == 0) {
    throw Error(ErrorCode::kInvalidInput, "no tokens were observed",
                "give calibration text of at least one sequence");
  }
  if (!(percentile > 0) || percentile > 100) {
    throw Error(ErrorCode::kUsage, fmt::format("a percentile of {}", percentile),
                "it must be above 0 and at most 100");
  }
  const float largest_code = LargestCode(codec);
  ScaleSet scales;
  scales.codec = codec;
  scales.granularity = granularity;
  scales.num_kv_heads = statistics.geometry().num_kv_heads;
  scales.head_dim = statistics.geometry().head_dim;
  for (uint32_t layer = 0; layer < statistics.geometry().num_layers; ++layer) {
    LayerScales values;
    values.k =
        ScalesOf(CoveredMagnitudes(statistics, layer, true, granularity, percentile), largest_code);
    values.v = ScalesOf(CoveredMagnitudes(statistics, layer, false, granularity, percentile),
                        largest_code);
    scales.layers.push_back(std::move(values));
  }
  ValidateScaleSet(scales, "calibration");
  return scales;
}

}  // namespace kvant
