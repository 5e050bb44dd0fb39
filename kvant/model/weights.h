// A model's weights in memory, packed as the checkpoint stores them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kvant/kernel/packed_matrix.h"
#include "kvant/model/gguf/gguf_file.h"
#include "kvant/model/model_config.h"

namespace kvant {

struct LayerWeights {
  std::vector<float> attention_norm;                    // [hidden]
  PackedMatrix query, key, value;                       // [heads * head_dim, hidden]
  std::vector<float> query_bias, key_bias, value_bias;  // empty if the model has none
  std::vector<float> query_norm, key_norm;              // [head_dim], empty if none
  PackedMatrix output;                                  // [hidden, heads * head_dim]
  std::vector<float> post_attention_norm;               // empty if none
  std::vector<float> feed_forward_norm;
  PackedMatrix gate, up;  // [feed_forward, hidden]
  PackedMatrix down;      // [hidden, feed_forward]
  std::vector<float> post_feed_forward_norm;
};

// Owns the bytes that its matrices point into.
struct ModelWeights {
  PackedMatrix embedding;    // [vocabulary, hidden]
  PackedMatrix unembedding;  // the same memory where the model ties them
  std::vector<float> output_norm;
  std::vector<float> rope_factors;  // [head_dim / 2] or empty
  std::vector<LayerWeights> layers;
  std::vector<std::unique_ptr<uint8_t[]>> storage;
  uint64_t bytes = 0;  // of storage and float vectors
};

// Reads the configuration. Throws Error{kUnsupported} for an architecture or a feature that Kvant
// does not have, listing what it has; Error{kInvalidInput} for values that contradict each other.
ModelConfig ReadModelConfig(const GgufFile& file);

// Reads and checks every tensor against the configuration. Throws Error{kInvalidInput} naming the
// tensor that is missing or has the wrong shape.
ModelWeights LoadWeights(const GgufFile& file, const ModelConfig& config);

// What a plan must know of the model.
KvGeometry GeometryOf(const ModelConfig& config, const ModelWeights& weights);

}  // namespace kvant
