// The forward pass of a decoder-only transformer over a paged, quantized KV cache.
//
// A token's way: embedding → per layer: norm, projections, RoPE; K and V written to the cache,
// blocks that complete are sealed, then the token attends; feed-forward → final norm → logits for
// the positions that asked. Activations are float32 throughout; weights stay packed.
//
// Bits: what a token computes depends on its sequence up to it, the plan, the instruction set and
// the pass (prefill or decode), never on the batch, the chunk or the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvant/cache/block_table.h"
#include "kvant/core/thread_pool.h"
#include "kvant/kernel/attention.h"
#include "kvant/kernel/kv_write.h"
#include "kvant/memory/plan_layout.h"
#include "kvant/model/model_config.h"
#include "kvant/model/tokenizer/tokenizer.h"
#include "kvant/model/weights.h"

namespace kvant {

// Which arithmetic the dense layers use: many tokens of a prompt, or one token of many sequences.
// They differ by rounding only; a prompt's tokens always take kPrefill, however few.
enum class Pass { kPrefill, kDecode };

// Consecutive tokens of one sequence. Its BlockTable has been prepared for them and is committed
// by the caller afterwards.
struct SequenceStep {
  std::span<const TokenId> tokens;
  BlockTable* blocks = nullptr;
  const PlanLayout* plan = nullptr;
  std::vector<LayerCounts>* counts = nullptr;  // per layer, or null
  // Logits of the last `num_logits` of the tokens, written to `logits` [num_logits, vocabulary].
  // In one kDecode call the steps' logits lie one behind the other.
  size_t num_logits = 0;
  float* logits = nullptr;
  // Arithmetic of the output projection: kDecode to sample from (at most 64 rows), kPrefill to
  // score many positions.
  Pass logits_pass = Pass::kDecode;
};

// Sees K and V of every layer before they are written: calibration and statistics.
class KvObserver {
 public:
  virtual ~KvObserver() = default;
  // k, v: [tokens, num_kv_heads * head_dim], after norm, bias and RoPE. q likewise with num_heads.
  virtual void Observe(uint32_t layer, uint64_t first_position, size_t tokens, const float* q,
                       const float* k, const float* v) = 0;
};

struct TransformerLimits {
  size_t max_rows = 512;        // tokens of one Forward call
  uint64_t max_positions = 0;   // longest sequence: sizes the RoPE tables
  uint64_t max_sequences = 64;  // of one decode call
};

class Transformer {
 public:
  Transformer(ModelConfig config, ModelWeights weights, const TransformerLimits& limits,
              ThreadPool& pool);
  ~Transformer();

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  KvGeometry geometry() const { return GeometryOf(config_, weights_); }

  // Runs one step. kPrefill: one sequence, 1 … max_rows tokens. kDecode: sequences of one token
  // each. REQUIRES: token ids below the vocabulary, positions below max_positions.
  void Forward(Pass pass, std::span<const SequenceStep> steps);

  // null: none. The observer outlives the passes it sees.
  void set_observer(KvObserver* observer) { observer_ = observer; }

  // Bytes of buffers and tables that a Transformer with these limits allocates beside its weights.
  static uint64_t WorkspaceBytes(const ModelConfig& config, const TransformerLimits& limits,
                                 size_t num_threads);

 private:
  struct Buffers;

  void RunLayer(Pass pass, uint32_t layer, std::span<const SequenceStep> steps, size_t rows);
  void ProjectAttention(Pass pass, uint32_t layer, size_t rows);
  void RotateAndNorm(uint32_t layer, std::span<const SequenceStep> steps, size_t rows);
  void WriteCache(uint32_t layer, std::span<const SequenceStep> steps);
  void AttendLayer(uint32_t layer, std::span<const SequenceStep> steps);
  void FeedForward(Pass pass, uint32_t layer, size_t rows);
  void ComputeLogits(Pass pass, std::span<const SequenceStep> steps);
  void Dense(Pass pass, const PackedMatrix& weights, const float* in, size_t rows, float* out);
  LayerCache CacheOf(uint32_t layer, const SequenceStep& step) const;
  const RopeTable& RopeOf(uint32_t layer) const;

  ModelConfig config_;
  ModelWeights weights_;
  TransformerLimits limits_;
  ThreadPool& pool_;
  KvObserver* observer_ = nullptr;
  RopeTable rope_;
  RopeTable rope_sliding_;
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace kvant
