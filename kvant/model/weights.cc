#include "kvant/model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/kernel/dequantize.h"
#include "kvant/model/gguf/gguf_cursor.h"

namespace kvant {

namespace {

constexpr const char* kSupportedArchitectures = "llama, qwen2, qwen3, gemma3";

// Bounds that no model of these families comes near: they keep products of sizes far from
// overflow and hostile files from asking for absurd memory.
constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxWidth = 1U << 20;
constexpr uint64_t kMaxVocabulary = 1U << 22;
constexpr uint64_t kMaxContext = 1ULL << 24;

Error Unsupported(const GgufFile& file, const std::string& what, const std::string& hint) {
  return Error(ErrorCode::kUnsupported, fmt::format("{}: {}", file.source(), what), hint);
}

Error Invalid(const GgufFile& file, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, fmt::format("{}: {}", file.source(), what));
}

// Metadata under the architecture's prefix.
class Metadata {
 public:
  Metadata(const GgufFile& file, std::string architecture)
      : file_(file), prefix_(std::move(architecture) + ".") {}

  uint32_t Size(const std::string& key, uint64_t maximum) const {
    return Checked(key, file_.Unsigned(prefix_ + key), maximum);
  }
  uint32_t SizeOr(const std::string& key, uint64_t maximum, uint64_t fallback) const {
    return Checked(key, file_.UnsignedOr(prefix_ + key, fallback), maximum);
  }
  double NumberOr(const std::string& key, double fallback) const {
    const double value = file_.FloatOr(prefix_ + key, fallback);
    if (!std::isfinite(value) || value < 0) {
      throw Invalid(file_, fmt::format("{}{} = {} is not usable", prefix_, key, value));
    }
    return value;
  }
  bool Has(const std::string& key) const { return file_.Has(prefix_ + key); }
  std::string Text(const std::string& key) const { return file_.String(prefix_ + key); }
  bool IsArray(const std::string& key) const { return Has(key) && file_.IsArray(prefix_ + key); }
  const std::vector<int64_t>& Integers(const std::string& key) const {
    return file_.Integers(prefix_ + key);
  }

 private:
  uint32_t Checked(const std::string& key, uint64_t value, uint64_t maximum) const {
    if (value == 0 || value > maximum) {
      throw Invalid(file_,
                    fmt::format("{}{} = {} is outside 1 … {}", prefix_, key, value, maximum));
    }
    return static_cast<uint32_t>(value);
  }

  const GgufFile& file_;
  std::string prefix_;
};

void RefuseUnsupportedFeatures(const GgufFile& file, const Metadata& metadata,
                               const ModelConfig& config) {
  if (file.UnsignedOr(config.architecture + ".expert_count", 0) > 0) {
    throw Unsupported(file, "mixture-of-experts layers",
                      "Kvant runs dense models: " + std::string(kSupportedArchitectures));
  }
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (metadata.NumberOr(key, 0) > 0) {
      throw Unsupported(file, fmt::format("logits capped by {}.{}", config.architecture, key),
                        "use a model without soft-capping (Gemma 3 has none)");
    }
  }
  if (metadata.Has("rope.scaling.type")) {
    const std::string type = metadata.Text("rope.scaling.type");
    if (type != "none" && type != "linear") {
      throw Unsupported(file, fmt::format("RoPE scaling '{}'", type),
                        "supported: none, linear, and Llama 3's factors in rope_freqs.weight");
    }
  }
}

void ReadRope(const GgufFile& file, const Metadata& metadata, ModelConfig* config) {
  const bool gemma = config->architecture == "gemma3";
  config->rope_base = metadata.NumberOr("rope.freq_base", gemma ? 1e6 : 1e4);
  config->rope_base_sliding = metadata.NumberOr("rope.freq_base_swa", 1e4);
  config->rope_interleaved = config->architecture == "llama";
  if (metadata.Has("rope.scaling.factor") &&
      (!metadata.Has("rope.scaling.type") || metadata.Text("rope.scaling.type") == "linear")) {
    config->rope_scale = metadata.NumberOr("rope.scaling.factor", 1);
  }
  if (config->rope_scale == 0) config->rope_scale = 1;
  for (const double base : {config->rope_base, config->rope_base_sliding, config->rope_scale}) {
    if (!(base > 0) || !std::isfinite(base)) {
      throw Invalid(file, fmt::format("a RoPE base or factor of {}", base));
    }
  }
}

// Which layers of gemma3 slide: every `pattern`-th is a full one, or one flag per layer. Files of
// models without windows lack the key.
void ReadWindows(const GgufFile& file, const Metadata& metadata, ModelConfig* config) {
  config->window_tokens.assign(config->num_layers, 0);
  if (!metadata.Has("attention.sliding_window")) return;
  if (config->architecture != "gemma3") {
    throw Unsupported(file, "sliding-window attention in a model that is not gemma3",
                      "supported: full attention, and gemma3's pattern");
  }
  const uint32_t window = metadata.Size("attention.sliding_window", kMaxContext);
  const std::string pattern_key = "attention.sliding_window_pattern";
  if (metadata.IsArray(pattern_key)) {
    const std::vector<int64_t>& slides = metadata.Integers(pattern_key);
    if (slides.size() != config->num_layers) {
      throw Invalid(file, fmt::format("gemma3.{} has {} entries for {} layers", pattern_key,
                                      slides.size(), config->num_layers));
    }
    for (uint32_t layer = 0; layer < config->num_layers; ++layer) {
      if (slides[layer] != 0) config->window_tokens[layer] = window;
    }
    return;
  }
  const uint32_t pattern = metadata.SizeOr(pattern_key, kMaxLayers, 6);
  for (uint32_t layer = 0; layer < config->num_layers; ++layer) {
    if ((layer + 1) % pattern != 0) config->window_tokens[layer] = window;
  }
}

void CheckConsistency(const GgufFile& file, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    throw Invalid(file, fmt::format("{} query heads do not divide over {} KV heads",
                                    config.num_heads, config.num_kv_heads));
  }
  if (config.group() > 64) {
    throw Unsupported(file, fmt::format("{} query heads per KV head", config.group()),
                      "at most 64 are supported");
  }
  if (config.head_dim % 16 != 0 || config.head_dim > 512) {
    throw Unsupported(file, fmt::format("head_dim {}", config.head_dim),
                      "multiples of 16 up to 512 are supported");
  }
}

// --- Tensors -----------------------------------------------------------------------------------

class TensorReader {
 public:
  TensorReader(const GgufFile& file, ModelWeights* weights) : file_(file), weights_(weights) {}

  // A matrix of `rows` outputs by `columns` inputs, kept packed.
  PackedMatrix Matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    const GgufTensor& tensor = Checked(name, {columns, rows});
    auto bytes = std::make_unique<uint8_t[]>(tensor.bytes);
    file_.ReadTensor(tensor, std::span(bytes.get(), tensor.bytes));
    PackedMatrix matrix;
    matrix.type = tensor.type;
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.data = bytes.get();
    weights_->bytes += tensor.bytes;
    weights_->storage.push_back(std::move(bytes));
    return matrix;
  }

  std::vector<float> Vector(const std::string& name, uint64_t size) {
    const GgufTensor& tensor = Checked(name, {size});
    std::vector<uint8_t> bytes(tensor.bytes);
    file_.ReadTensor(tensor, bytes);
    std::vector<float> values(size);
    DequantizeRow(tensor.type, bytes.data(), size, values.data());
    for (const float value : values) {
      if (!std::isfinite(value)) {
        throw Invalid(file_, fmt::format("tensor {} holds a value that is not finite", name));
      }
    }
    weights_->bytes += size * sizeof(float);
    return values;
  }

  std::vector<float> VectorIfPresent(const std::string& name, uint64_t size) {
    return file_.Find(name) == nullptr ? std::vector<float>() : Vector(name, size);
  }

  // A tensor that nothing reads would change the model's answers if it were applied.
  void RefuseUnread() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (read_.contains(tensor.name)) continue;
      throw Unsupported(file_, fmt::format("tensor {}", Printable(tensor.name)),
                        "this architecture is run without it here, which would be another model");
    }
  }

 private:
  const GgufTensor& Checked(const std::string& name, const std::vector<uint64_t>& shape) {
    const GgufTensor& tensor = file_.Get(name);
    read_.insert(name);
    std::vector<uint64_t> got = tensor.shape;
    while (got.size() > 1 && got.back() == 1) got.pop_back();
    if (got != shape) {
      throw Invalid(file_, fmt::format("tensor {} has shape [{}], expected [{}]", name,
                                       fmt::join(tensor.shape, ", "), fmt::join(shape, ", ")));
    }
    return tensor;
  }

  const GgufFile& file_;
  ModelWeights* weights_;
  std::set<std::string> read_;
};

LayerWeights ReadLayer(TensorReader* reader, const ModelConfig& c, uint32_t index) {
  const std::string prefix = fmt::format("blk.{}.", index);
  const uint64_t q = uint64_t{c.num_heads} * c.head_dim;
  const uint64_t kv = uint64_t{c.num_kv_heads} * c.head_dim;
  LayerWeights w;
  w.attention_norm = reader->Vector(prefix + "attn_norm.weight", c.hidden);
  w.query = reader->Matrix(prefix + "attn_q.weight", q, c.hidden);
  w.key = reader->Matrix(prefix + "attn_k.weight", kv, c.hidden);
  w.value = reader->Matrix(prefix + "attn_v.weight", kv, c.hidden);
  w.query_bias = reader->VectorIfPresent(prefix + "attn_q.bias", q);
  w.key_bias = reader->VectorIfPresent(prefix + "attn_k.bias", kv);
  w.value_bias = reader->VectorIfPresent(prefix + "attn_v.bias", kv);
  if (c.query_key_norm) {
    w.query_norm = reader->Vector(prefix + "attn_q_norm.weight", c.head_dim);
    w.key_norm = reader->Vector(prefix + "attn_k_norm.weight", c.head_dim);
  }
  w.output = reader->Matrix(prefix + "attn_output.weight", c.hidden, q);
  w.feed_forward_norm = reader->Vector(prefix + "ffn_norm.weight", c.hidden);
  if (c.post_norms) {
    w.post_attention_norm = reader->Vector(prefix + "post_attention_norm.weight", c.hidden);
    w.post_feed_forward_norm = reader->Vector(prefix + "post_ffw_norm.weight", c.hidden);
  }
  w.gate = reader->Matrix(prefix + "ffn_gate.weight", c.feed_forward, c.hidden);
  w.up = reader->Matrix(prefix + "ffn_up.weight", c.feed_forward, c.hidden);
  w.down = reader->Matrix(prefix + "ffn_down.weight", c.hidden, c.feed_forward);
  return w;
}

}  // namespace

ModelConfig ReadModelConfig(const GgufFile& file) {
  ModelConfig config;
  config.architecture = file.String("general.architecture");
  const bool known = config.architecture == "llama" || config.architecture == "qwen2" ||
                     config.architecture == "qwen3" || config.architecture == "gemma3";
  if (!known) {
    throw Unsupported(file, fmt::format("architecture '{}'", Printable(config.architecture)),
                      fmt::format("supported: {}", kSupportedArchitectures));
  }
  config.name = Printable(file.StringOr("general.name", config.architecture));
  const Metadata metadata(file, config.architecture);
  config.num_layers = metadata.Size("block_count", kMaxLayers);
  config.hidden = metadata.Size("embedding_length", kMaxWidth);
  config.feed_forward = metadata.Size("feed_forward_length", kMaxWidth);
  config.num_heads = metadata.Size("attention.head_count", 4096);
  config.num_kv_heads = metadata.SizeOr("attention.head_count_kv", 4096, config.num_heads);
  config.context_length = metadata.Size("context_length", kMaxContext);
  config.head_dim =
      metadata.SizeOr("attention.key_length", 4096, std::max(1U, config.hidden / config.num_heads));
  if (metadata.SizeOr("attention.value_length", 4096, config.head_dim) != config.head_dim) {
    throw Unsupported(file, "K and V of different head_dim", "use a model where both are equal");
  }
  if (metadata.SizeOr("rope.dimension_count", 4096, config.head_dim) != config.head_dim) {
    throw Unsupported(file, "partial rotary embedding", "use a model that rotates the whole head");
  }
  config.rms_epsilon =
      static_cast<float>(metadata.NumberOr("attention.layer_norm_rms_epsilon", 1e-5));
  config.softmax_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  if (config.architecture == "gemma3") {
    config.activation = Activation::kGeluTanh;
    config.post_norms = true;
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
    // The 27B model scales queries by the width per head, not by head_dim; no key says so, and
    // llama.cpp, too, knows the model by its 62 layers (config.json: query_pre_attn_scalar 168).
    constexpr uint32_t kLayersOf27B = 62;
    if (config.num_layers == kLayersOf27B) {
      config.softmax_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden) /
                                              static_cast<float>(config.num_heads));
    }
  }
  config.query_key_norm = config.architecture == "gemma3" || config.architecture == "qwen3";
  const GgufTensor& embedding = file.Get("token_embd.weight");
  if (embedding.shape.size() != 2 || embedding.shape[1] > kMaxVocabulary) {
    throw Invalid(file, "token_embd.weight is not a matrix of a usable vocabulary");
  }
  config.vocabulary = static_cast<uint32_t>(embedding.shape[1]);
  ReadRope(file, metadata, &config);
  ReadWindows(file, metadata, &config);
  RefuseUnsupportedFeatures(file, metadata, config);
  CheckConsistency(file, config);
  return config;
}

ModelWeights LoadWeights(const GgufFile& file, const ModelConfig& config) {
  ModelWeights weights;
  TensorReader reader(file, &weights);
  weights.embedding = reader.Matrix("token_embd.weight", config.vocabulary, config.hidden);
  weights.unembedding = file.Find("output.weight") == nullptr
                            ? weights.embedding
                            : reader.Matrix("output.weight", config.vocabulary, config.hidden);
  weights.output_norm = reader.Vector("output_norm.weight", config.hidden);
  weights.rope_factors = reader.VectorIfPresent("rope_freqs.weight", config.head_dim / 2);
  for (const float factor : weights.rope_factors) {
    if (!(factor > 0)) throw Invalid(file, "rope_freqs.weight holds a factor that is not positive");
  }
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    weights.layers.push_back(ReadLayer(&reader, config, layer));
  }
  reader.RefuseUnread();
  return weights;
}

KvGeometry GeometryOf(const ModelConfig& config, const ModelWeights& weights) {
  KvGeometry geometry;
  geometry.num_layers = config.num_layers;
  geometry.num_kv_heads = config.num_kv_heads;
  geometry.head_dim = config.head_dim;
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    geometry.sliding_window.push_back(config.window_tokens[layer] != 0);
    geometry.has_k_bias.push_back(!weights.layers[layer].key_bias.empty());
  }
  return geometry;
}

}  // namespace kvant
