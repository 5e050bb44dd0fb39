// Ranges of K and V per layer, KV head and channel, over text that a model has run on.
#pragma once

#include <cstdint>
#include <vector>

#include "kvant/format/kv_plan.h"
#include "kvant/format/scale_set.h"
#include "kvant/model/transformer.h"

namespace kvant {

// Magnitudes of one channel: the largest, and a histogram by size.
class ChannelStatistics {
 public:
  // Buckets are eighths of an octave from 2^-20 to 2^12; a percentile is at most 9 % too large.
  static constexpr int kBucketsPerOctave = 8;
  static constexpr int kSmallestExponent = -20;
  static constexpr int kBuckets = 32 * kBucketsPerOctave;

  void Add(float value);
  uint64_t count() const { return count_; }
  float largest() const { return largest_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  void AddTo(ChannelStatistics* total) const;

  // The smallest bucket border that at least `percent` of the magnitudes do not exceed; the
  // absolute maximum for 100. REQUIRES: count() > 0, 0 < percent <= 100.
  float Percentile(double percent) const;

 private:
  uint64_t count_ = 0;
  float largest_ = 0;
  double sum_ = 0;  // signed
  uint32_t buckets_[kBuckets] = {};
};

// Collects what a Transformer computes. Not finite values are left out and counted.
class KvStatistics : public KvObserver {
 public:
  explicit KvStatistics(const KvGeometry& geometry);

  void Observe(uint32_t layer, uint64_t first_position, size_t tokens, const float* q,
               const float* k, const float* v) override;

  const KvGeometry& geometry() const { return geometry_; }
  const ChannelStatistics& k(uint32_t layer, uint32_t head, uint32_t channel) const;
  const ChannelStatistics& v(uint32_t layer, uint32_t head, uint32_t channel) const;
  uint64_t tokens() const { return tokens_; }
  uint64_t non_finite() const { return non_finite_; }

 private:
  size_t Index(uint32_t layer, uint32_t head, uint32_t channel) const;

  KvGeometry geometry_;
  std::vector<ChannelStatistics> k_, v_;
  uint64_t tokens_ = 0;
  uint64_t non_finite_ = 0;
};

// Whether scales can be calibrated for this codec.
bool HasStaticScales(Codec codec);

// Scales that cover `percentile` percent of the magnitudes of each tensor, head or channel: the
// covered magnitude over the codec's largest code. Channels that were always zero get the smallest
// scale of their layer. Throws Error{kInvalidInput} if nothing was observed.
ScaleSet ScalesFromStatistics(const KvStatistics& statistics, Codec codec, Granularity granularity,
                              double percentile);

}  // namespace kvant
