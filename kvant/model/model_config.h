// The shape of a decoder-only transformer, as read from a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvant/format/kv_plan.h"

namespace kvant {

enum class Activation { kSilu, kGeluTanh };

struct ModelConfig {
  std::string architecture;  // GGUF's name: llama, qwen2, qwen3, gemma3
  std::string name;          // general.name, for people
  uint32_t num_layers = 0;
  uint32_t hidden = 0;
  uint32_t feed_forward = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocabulary = 0;
  uint64_t context_length = 0;  // trained
  float rms_epsilon = 1e-5F;
  float softmax_scale = 0;
  float embedding_scale = 1;  // gemma: sqrt(hidden)
  double rope_base = 10000;
  double rope_base_sliding = 10000;  // of sliding-window layers
  double rope_scale = 1;             // linear: positions are divided by it (full layers)
  bool rope_interleaved = false;
  Activation activation = Activation::kSilu;
  bool query_key_norm = false;
  bool post_norms = false;              // gemma: norms after attention and feed-forward as well
  std::vector<uint64_t> window_tokens;  // per layer, 0: full attention

  uint32_t group() const { return num_heads / num_kv_heads; }
};

}  // namespace kvant
