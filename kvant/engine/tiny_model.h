// A model of a few thousand random weights, for tests of what does not depend on their meaning.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/engine/model.h"
#include "kvant/model/gguf/gguf_builder.h"

namespace kvant {

struct TinyShape {
  std::string architecture = "llama";  // or qwen2 (K biases), gemma3 (sliding windows)
  uint32_t layers = 3;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t hidden = 128;
  uint32_t feed_forward = 192;
  uint32_t window = 96;           // gemma3; every third layer is full
  uint32_t embedding_rows = 258;  // less than the tokenizer's tokens: damaged
};

class TinyModelBuilder {
 public:
  explicit TinyModelBuilder(const TinyShape& shape) : s_(shape) {
    AddMetadata();
    AddTokenizer();
    AddMatrix("token_embd.weight", s_.embedding_rows, s_.hidden, 1.0);
    AddVector("output_norm.weight", s_.hidden, 1);
    for (uint32_t layer = 0; layer < s_.layers; ++layer) AddLayer("blk." + std::to_string(layer));
  }

  Model Build() const { return LoadModel(GgufFile::FromBytes(gguf_.Build(), "tiny")); }

  GgufBuilder& gguf() { return gguf_; }

  static constexpr uint32_t kVocabulary = 258;

 private:
  bool gemma() const { return s_.architecture == "gemma3"; }

  void AddMetadata() {
    const std::string a = s_.architecture + ".";
    gguf_.String("general.architecture", s_.architecture);
    gguf_.Uint32(a + "block_count", s_.layers);
    gguf_.Uint32(a + "embedding_length", s_.hidden);
    gguf_.Uint32(a + "feed_forward_length", s_.feed_forward);
    gguf_.Uint32(a + "attention.head_count", s_.heads);
    gguf_.Uint32(a + "attention.head_count_kv", s_.kv_heads);
    gguf_.Uint32(a + "attention.key_length", s_.head_dim);
    gguf_.Uint32(a + "attention.value_length", s_.head_dim);
    gguf_.Uint32(a + "context_length", 4096);
    gguf_.Float32(a + "attention.layer_norm_rms_epsilon", 1e-5F);
    if (!gemma()) return;
    gguf_.Uint32(a + "attention.sliding_window", s_.window);
    gguf_.Uint32(a + "attention.sliding_window_pattern", 3);
  }

  // Bytes and two control tokens.
  void AddTokenizer() {
    std::vector<std::string> tokens;
    int32_t next = 256;
    for (int32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const int32_t code = printable ? b : next++;
      tokens.push_back(code < 0x80 ? std::string(1, static_cast<char>(code))
                                   : std::string{static_cast<char>(0xC0 | (code >> 6)),
                                                 static_cast<char>(0x80 | (code & 0x3F))});
    }
    tokens.emplace_back("<s>");
    tokens.emplace_back("</s>");
    std::vector<int32_t> types(256, 1);
    types.insert(types.end(), {3, 3});
    gguf_.String("tokenizer.ggml.model", "gpt2");
    gguf_.String("tokenizer.ggml.pre", "default");
    gguf_.Strings("tokenizer.ggml.tokens", tokens);
    gguf_.Int32s("tokenizer.ggml.token_type", types);
    gguf_.Uint32("tokenizer.ggml.eos_token_id", 257);
  }

  void AddLayer(const std::string& prefix) {
    const uint32_t q = s_.heads * s_.head_dim;
    const uint32_t kv = s_.kv_heads * s_.head_dim;
    const double scale = 1.5 / std::sqrt(s_.hidden);
    AddVector(prefix + ".attn_norm.weight", s_.hidden, 1);
    AddMatrix(prefix + ".attn_q.weight", q, s_.hidden, 2 * scale);
    AddMatrix(prefix + ".attn_k.weight", kv, s_.hidden, 2 * scale);
    AddMatrix(prefix + ".attn_v.weight", kv, s_.hidden, scale);
    AddMatrix(prefix + ".attn_output.weight", s_.hidden, q, 1.0 / std::sqrt(q));
    AddVector(prefix + ".ffn_norm.weight", s_.hidden, 1);
    AddMatrix(prefix + ".ffn_gate.weight", s_.feed_forward, s_.hidden, scale);
    AddMatrix(prefix + ".ffn_up.weight", s_.feed_forward, s_.hidden, scale);
    AddMatrix(prefix + ".ffn_down.weight", s_.hidden, s_.feed_forward,
              1.0 / std::sqrt(s_.feed_forward));
    if (s_.architecture == "qwen2") {
      AddVector(prefix + ".attn_q.bias", q, 0);
      AddVector(prefix + ".attn_k.bias", kv, 20);
      AddVector(prefix + ".attn_v.bias", kv, 0);
    }
    if (!gemma()) return;
    AddVector(prefix + ".attn_q_norm.weight", s_.head_dim, 1);
    AddVector(prefix + ".attn_k_norm.weight", s_.head_dim, 1);
    AddVector(prefix + ".post_attention_norm.weight", s_.hidden, 1);
    AddVector(prefix + ".post_ffw_norm.weight", s_.hidden, 1);
  }

  void AddMatrix(const std::string& name, uint64_t rows, uint64_t columns, double scale) {
    std::vector<float> values(rows * columns);
    for (float& x : values) x = static_cast<float>(random_.Normal() * scale);
    gguf_.FloatTensor(name, {columns, rows}, values);
  }
  void AddVector(const std::string& name, uint64_t size, double centre) {
    std::vector<float> values(size);
    for (float& x : values) x = static_cast<float>(centre + 0.1 * random_.Normal());
    gguf_.FloatTensor(name, {size}, values);
  }

  TinyShape s_;
  GgufBuilder gguf_;
  Random random_{11};
};

}  // namespace kvant
