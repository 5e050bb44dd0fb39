// One layer's cache in plain memory, for tests and benchmarks of the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/kernel/kv_layout.h"
#include "kvant/kernel/kv_write.h"

namespace kvant {

struct CacheShape {
  uint32_t num_kv_heads = 1;
  uint32_t head_dim = 64;
  uint64_t max_tokens = 0;
};

// Writes token by token range and seals as the engine does: after n tokens, every block below
// n/64 - recent that is not a sink.
class KvCacheFixture {
 public:
  KvCacheFixture(const KvFormat& format, const CacheShape& shape, uint64_t seed)
      : shape_(shape), layout_(MakeLayerLayout(format, shape.num_kv_heads, shape.head_dim)) {
    Random random(seed);
    const uint64_t blocks = (shape.max_tokens + kBlockTokens - 1) / kBlockTokens;
    open_.assign(blocks * layout_.open_bytes + 64, 0);
    sealed_.assign(blocks * layout_.sealed_bytes + 64, 0);
    pointers_.resize(blocks);
    for (uint64_t b = 0; b < blocks; ++b) {
      pointers_[b].open = open_.data() + b * layout_.open_bytes;
      pointers_[b].sealed = sealed_.data() + b * layout_.sealed_bytes;
    }
    rope_ = MakeRopeTable(10000.0, {}, shape.head_dim, false,
                          std::max<uint64_t>(blocks * kBlockTokens, kBlockTokens));
    cache_.layout = &layout_;
    cache_.blocks = pointers_;
    cache_.rope = &rope_;
    if (format.k.centering == Centering::kBiasRemoved) {
      for (uint32_t i = 0; i < shape.num_kv_heads * shape.head_dim; ++i) {
        bias_.push_back(static_cast<float>(random.Normal() * (i % 17 == 0 ? 60.0 : 1.0)));
      }
      cache_.k_bias = bias_;
    }
    FillScales(format.k, &k_scales_);
    FillScales(format.v, &v_scales_);
    cache_.k_scales = k_scales_;
    cache_.v_scales = v_scales_;
  }
  KvCacheFixture(const KvCacheFixture&) = delete;
  KvCacheFixture& operator=(const KvCacheFixture&) = delete;

  const LayerCache& cache() const { return cache_; }
  const LayerLayout& layout() const { return layout_; }
  LayerCounts& counts() { return counts_; }
  std::vector<BlockPointers>& pointers() { return pointers_; }

  // k, v: [count, num_kv_heads, head_dim].
  void Write(const std::vector<float>& k, const std::vector<float>& v, uint64_t count) {
    const uint32_t heads = shape_.num_kv_heads;
    for (uint32_t head = 0; head < heads; ++head) {
      WriteTokens(cache_, head, tokens_, count, k.data() + head * shape_.head_dim,
                  v.data() + head * shape_.head_dim, size_t{heads} * shape_.head_dim, &scratch_,
                  &counts_);
    }
    tokens_ += count;
    if (layout_.format.write == WriteMode::kAppend) return;
    const uint64_t complete = tokens_ / kBlockTokens;
    const uint64_t recent = layout_.format.recent_blocks();
    for (; sealed_blocks_ + recent < complete; ++sealed_blocks_) {
      if (sealed_blocks_ < layout_.format.sink_blocks()) continue;
      for (uint32_t head = 0; head < heads; ++head) {
        SealBlock(cache_, sealed_blocks_, head, &scratch_, &counts_);
      }
    }
  }

 private:
  void FillScales(const StreamFormat& stream, std::vector<float>* scales) const {
    if (stream.source != ScaleSource::kStatic) return;
    const size_t count = stream.granularity == Granularity::kTensor ? 1
                         : stream.granularity == Granularity::kHead
                             ? shape_.num_kv_heads
                             : size_t{shape_.num_kv_heads} * shape_.head_dim;
    const float largest = stream.codec == Codec::kInt4   ? 7.0F
                          : stream.codec == Codec::kInt8 ? 127.0F
                                                         : 448.0F;
    for (size_t i = 0; i < count; ++i) {
      scales->push_back(5.0F / largest * (1.0F + static_cast<float>(i % 5) * 0.1F));
    }
  }

  CacheShape shape_;
  LayerLayout layout_;
  RopeTable rope_;
  std::vector<uint8_t> open_, sealed_;
  std::vector<BlockPointers> pointers_;
  std::vector<float> bias_, k_scales_, v_scales_;
  LayerCache cache_;
  KvWriteScratch scratch_;
  LayerCounts counts_;
  uint64_t tokens_ = 0;
  uint64_t sealed_blocks_ = 0;
};

}  // namespace kvant
