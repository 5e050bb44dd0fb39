#include "kvant/model/transformer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/kernel/dequantize.h"
#include "kvant/kernel/gemv.h"
#include "kvant/kernel/matmul.h"
#include "kvant/kernel/vector_ops.h"

namespace kvant {

namespace {

// Rows of one task of the loops over tokens: small enough to balance two threads.
constexpr size_t kRowsPerTask = 16;

template <typename Body>
void ForRows(ThreadPool& pool, size_t rows, const Body& body) {
  pool.ParallelFor(DivideRoundUp(rows, kRowsPerTask), [&](size_t task, size_t) {
    const size_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (size_t row = task * kRowsPerTask; row < end; ++row) body(row);
  });
}

size_t RowsOf(std::span<const SequenceStep> steps) {
  size_t rows = 0;
  for (const SequenceStep& step : steps) rows += step.tokens.size();
  return rows;
}

// Partial attention results: every query head of one decode batch, or of one prefill tile's worth
// of queries, over the partitions of the longest sequences.
size_t MaxPartials(const ModelConfig& config, const TransformerLimits& limits) {
  const uint64_t partitions =
      limits.max_positions / (kBlockTokens * kPartitionBlocks) + limits.max_sequences;
  return config.num_heads * partitions * 2;
}

// Of all dense layers.
uint64_t MaxColumns(const ModelConfig& config) {
  return std::max<uint64_t>(
      {config.hidden, config.feed_forward, uint64_t{config.num_heads} * config.head_dim});
}

}  // namespace

struct Transformer::Buffers {
  Buffers(const ModelConfig& config, const TransformerLimits& limits, size_t num_threads)
      : hidden(limits.max_rows * config.hidden),
        normed(limits.max_rows * config.hidden),
        projected(limits.max_rows * config.hidden),
        query(limits.max_rows * config.num_heads * config.head_dim),
        key(limits.max_rows * config.num_kv_heads * config.head_dim),
        value(limits.max_rows * config.num_kv_heads * config.head_dim),
        attended(limits.max_rows * config.num_heads * config.head_dim),
        gate(limits.max_rows * config.feed_forward),
        up(limits.max_rows * config.feed_forward),
        attention(config.head_dim, num_threads, MaxPartials(config, limits)),
        matmul(num_threads),
        gemv(MaxColumns(config)),
        scratch(num_threads) {}

  std::vector<float> hidden;     // [rows, hidden] the residual stream
  std::vector<float> normed;     // [rows, hidden]
  std::vector<float> projected;  // [rows, hidden]
  std::vector<float> query;      // [rows, num_heads * head_dim]
  std::vector<float> key;        // [rows, num_kv_heads * head_dim]
  std::vector<float> value;
  std::vector<float> attended;  // [rows, num_heads * head_dim]
  std::vector<float> gate;      // [rows, feed_forward]
  std::vector<float> up;
  AttentionWorkspace attention;
  MatmulWorkspace matmul;
  GemvWorkspace gemv;
  std::vector<KvWriteScratch> scratch;  // per thread
};

Transformer::Transformer(ModelConfig config, ModelWeights weights, const TransformerLimits& limits,
                         ThreadPool& pool)
    : config_(std::move(config)), weights_(std::move(weights)), limits_(limits), pool_(pool) {
  // Decoding pads nothing, but a whole block of positions is needed by the bias table.
  const uint64_t positions = RoundUp(std::max<uint64_t>(limits.max_positions, 1), kBlockTokens);
  std::vector<float> factors = weights_.rope_factors;
  if (config_.rope_scale != 1) {
    if (factors.empty()) factors.assign(config_.head_dim / 2, 1.0F);
    for (float& factor : factors) factor *= static_cast<float>(config_.rope_scale);
  }
  rope_ = MakeRopeTable(config_.rope_base, factors, config_.head_dim, config_.rope_interleaved,
                        positions);
  const bool sliding = std::any_of(config_.window_tokens.begin(), config_.window_tokens.end(),
                                   [](uint64_t window) { return window != 0; });
  if (sliding) {
    rope_sliding_ = MakeRopeTable(config_.rope_base_sliding, {}, config_.head_dim,
                                  config_.rope_interleaved, positions);
  }
  buffers_ = std::make_unique<Buffers>(config_, limits_, pool_.num_threads());
}

Transformer::~Transformer() = default;

uint64_t Transformer::WorkspaceBytes(const ModelConfig& config, const TransformerLimits& limits,
                                     size_t num_threads) {
  const uint64_t per_row = 3ULL * config.hidden + 2ULL * config.num_heads * config.head_dim +
                           2ULL * config.num_kv_heads * config.head_dim +
                           2ULL * config.feed_forward;
  const uint64_t positions = RoundUp(std::max<uint64_t>(limits.max_positions, 1), kBlockTokens);
  const bool sliding = std::any_of(config.window_tokens.begin(), config.window_tokens.end(),
                                   [](uint64_t window) { return window != 0; });
  return limits.max_rows * per_row * sizeof(float) +
         AttentionWorkspace::Bytes(config.head_dim, num_threads, MaxPartials(config, limits)) +
         MatmulWorkspaceBytes(num_threads) + GemvWorkspaceBytes(MaxColumns(config)) +
         num_threads * KvWriteScratchBytes(config.head_dim) +
         RopeTableBytes(config.head_dim, positions) * (sliding ? 2 : 1);
}

const RopeTable& Transformer::RopeOf(uint32_t layer) const {
  return config_.window_tokens[layer] != 0 ? rope_sliding_ : rope_;
}

void Transformer::Dense(Pass pass, const PackedMatrix& weights, const float* in, size_t rows,
                        float* out) {
  if (pass == Pass::kPrefill) {
    Multiply(weights, in, rows, out, pool_, buffers_->matmul);
    return;
  }
  for (size_t row = 0; row < rows; row += kMaxGemvBatch) {
    const size_t count = std::min(rows - row, kMaxGemvBatch);
    MultiplyRows(weights, std::span(in + row * weights.columns, count * weights.columns), count,
                 out + row * weights.rows, pool_, buffers_->gemv);
  }
}

void Transformer::Forward(Pass pass, std::span<const SequenceStep> steps) {
  const size_t rows = RowsOf(steps);
  KVANT_CHECK(rows >= 1 && rows <= limits_.max_rows);
  KVANT_CHECK(pass == Pass::kDecode ? rows == steps.size() : steps.size() == 1);
  const uint64_t row_bytes = weights_.embedding.row_bytes();
  size_t row = 0;
  for (const SequenceStep& step : steps) {
    KVANT_CHECK(step.blocks->tokens() + step.tokens.size() <= rope_.positions());
    for (const TokenId token : step.tokens) {
      KVANT_CHECK(token >= 0 && static_cast<uint32_t>(token) < config_.vocabulary);
      float* out = buffers_->hidden.data() + row * config_.hidden;
      DequantizeRow(weights_.embedding.type,
                    weights_.embedding.data + static_cast<uint64_t>(token) * row_bytes,
                    config_.hidden, out);
      if (config_.embedding_scale != 1) {
        for (uint32_t i = 0; i < config_.hidden; ++i) out[i] *= config_.embedding_scale;
      }
      ++row;
    }
  }
  for (uint32_t layer = 0; layer < config_.num_layers; ++layer) {
    RunLayer(pass, layer, steps, rows);
  }
  ComputeLogits(pass, steps);
}

void Transformer::RunLayer(Pass pass, uint32_t layer, std::span<const SequenceStep> steps,
                           size_t rows) {
  const LayerWeights& w = weights_.layers[layer];
  const uint32_t hidden = config_.hidden;
  Buffers& b = *buffers_;
  ForRows(pool_, rows, [&](size_t r) {
    RmsNorm(&b.hidden[r * hidden], w.attention_norm.data(), hidden, config_.rms_epsilon,
            &b.normed[r * hidden]);
  });
  ProjectAttention(pass, layer, rows);
  RotateAndNorm(layer, steps, rows);
  WriteCache(layer, steps);
  AttendLayer(layer, steps);
  Dense(pass, w.output, b.attended.data(), rows, b.projected.data());
  ForRows(pool_, rows, [&](size_t r) {
    float* projected = &b.projected[r * hidden];
    if (config_.post_norms) {
      RmsNorm(projected, w.post_attention_norm.data(), hidden, config_.rms_epsilon, projected);
    }
    AddInPlace(projected, hidden, &b.hidden[r * hidden]);
    RmsNorm(&b.hidden[r * hidden], w.feed_forward_norm.data(), hidden, config_.rms_epsilon,
            &b.normed[r * hidden]);
  });
  FeedForward(pass, layer, rows);
}

void Transformer::ProjectAttention(Pass pass, uint32_t layer, size_t rows) {
  const LayerWeights& w = weights_.layers[layer];
  Buffers& b = *buffers_;
  Dense(pass, w.query, b.normed.data(), rows, b.query.data());
  Dense(pass, w.key, b.normed.data(), rows, b.key.data());
  Dense(pass, w.value, b.normed.data(), rows, b.value.data());
}

void Transformer::RotateAndNorm(uint32_t layer, std::span<const SequenceStep> steps, size_t rows) {
  const LayerWeights& w = weights_.layers[layer];
  const RopeTable& rope = RopeOf(layer);
  const uint32_t head_dim = config_.head_dim;
  const size_t query_width = size_t{config_.num_heads} * head_dim;
  const size_t key_width = size_t{config_.num_kv_heads} * head_dim;
  Buffers& b = *buffers_;
  std::vector<uint64_t> positions;
  positions.reserve(rows);
  for (const SequenceStep& step : steps) {
    for (size_t i = 0; i < step.tokens.size(); ++i) positions.push_back(step.blocks->tokens() + i);
  }
  ForRows(pool_, rows, [&](size_t r) {
    float* q = &b.query[r * query_width];
    float* k = &b.key[r * key_width];
    float* v = &b.value[r * key_width];
    if (!w.query_bias.empty()) AddInPlace(w.query_bias.data(), query_width, q);
    if (!w.key_bias.empty()) AddInPlace(w.key_bias.data(), key_width, k);
    if (!w.value_bias.empty()) AddInPlace(w.value_bias.data(), key_width, v);
    for (uint32_t head = 0; head < config_.num_heads; ++head) {
      float* vector = q + head * head_dim;
      if (config_.query_key_norm) {
        RmsNorm(vector, w.query_norm.data(), head_dim, config_.rms_epsilon, vector);
      }
      ApplyRope(rope, positions[r], std::span(vector, head_dim));
    }
    for (uint32_t head = 0; head < config_.num_kv_heads; ++head) {
      float* vector = k + head * head_dim;
      if (config_.query_key_norm) {
        RmsNorm(vector, w.key_norm.data(), head_dim, config_.rms_epsilon, vector);
      }
      ApplyRope(rope, positions[r], std::span(vector, head_dim));
    }
  });
  if (observer_ == nullptr) return;
  size_t row = 0;
  for (const SequenceStep& step : steps) {
    observer_->Observe(layer, step.blocks->tokens(), step.tokens.size(),
                       &b.query[row * query_width], &b.key[row * key_width],
                       &b.value[row * key_width]);
    row += step.tokens.size();
  }
}

LayerCache Transformer::CacheOf(uint32_t layer, const SequenceStep& step) const {
  const PlanLayout& plan = *step.plan;
  LayerCache cache;
  cache.layout = &plan.layers[layer];
  cache.blocks = step.blocks->blocks(plan.group[layer]);
  cache.open_offset = plan.open_offset[layer];
  cache.sealed_offset = plan.sealed_offset[layer];
  if (plan.plan.scales != nullptr) {
    cache.k_scales = plan.plan.scales->layers[layer].k;
    cache.v_scales = plan.plan.scales->layers[layer].v;
  }
  cache.k_bias = weights_.layers[layer].key_bias;
  cache.rope = &RopeOf(layer);
  return cache;
}

void Transformer::WriteCache(uint32_t layer, std::span<const SequenceStep> steps) {
  // One task: one KV head of one sequence, its tokens up to a block's end, and the sealing of the
  // blocks that complete. Blocks before this step's first token were sealed in earlier steps.
  struct Task {
    const SequenceStep* step;
    uint32_t head;
    size_t first_row;
  };
  const size_t width = size_t{config_.num_kv_heads} * config_.head_dim;
  std::vector<Task> tasks;
  size_t row = 0;
  for (const SequenceStep& step : steps) {
    for (uint32_t head = 0; head < config_.num_kv_heads; ++head)
      tasks.push_back({&step, head, row});
    row += step.tokens.size();
  }
  std::vector<LayerCounts> counts(tasks.size());
  pool_.ParallelFor(tasks.size(), [&](size_t index, size_t worker) {
    const Task& task = tasks[index];
    const LayerCache cache = CacheOf(layer, *task.step);
    const size_t offset = task.first_row * width + size_t{task.head} * config_.head_dim;
    KvWriteScratch& scratch = buffers_->scratch[worker];
    WriteTokens(cache, task.head, task.step->blocks->tokens(), task.step->tokens.size(),
                &buffers_->key[offset], &buffers_->value[offset], width, &scratch, &counts[index]);
    const uint32_t group = task.step->plan->group[layer];
    if (task.step->plan->cache->groups[group].open_is_sealed) return;
    const auto [first, end] = task.step->blocks->blocks_to_seal(group);
    for (uint64_t block = first; block < end; ++block) {
      SealBlock(cache, block, task.head, &scratch, &counts[index]);
    }
  });
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].step->counts != nullptr) AddCounts(counts[i], &(*tasks[i].step->counts)[layer]);
  }
}

void Transformer::AttendLayer(uint32_t layer, std::span<const SequenceStep> steps) {
  const size_t width = size_t{config_.num_heads} * config_.head_dim;
  const AttentionShape shape = {config_.num_heads, config_.num_kv_heads, config_.head_dim,
                                config_.softmax_scale, config_.window_tokens[layer]};
  std::vector<AttentionQueries> queries;
  queries.reserve(steps.size());
  size_t row = 0;
  for (const SequenceStep& step : steps) {
    queries.push_back({CacheOf(layer, step), step.blocks->tokens(), step.tokens.size(),
                       &buffers_->query[row * width], &buffers_->attended[row * width]});
    row += step.tokens.size();
  }
  Attend(shape, queries, pool_, buffers_->attention);
}

void Transformer::FeedForward(Pass pass, uint32_t layer, size_t rows) {
  const LayerWeights& w = weights_.layers[layer];
  const size_t width = config_.feed_forward;
  Buffers& b = *buffers_;
  Dense(pass, w.gate, b.normed.data(), rows, b.gate.data());
  Dense(pass, w.up, b.normed.data(), rows, b.up.data());
  ForRows(pool_, rows, [&](size_t r) {
    if (config_.activation == Activation::kSilu) {
      SiluTimes(&b.gate[r * width], &b.up[r * width], width);
    } else {
      GeluTanhTimes(&b.gate[r * width], &b.up[r * width], width);
    }
  });
  Dense(pass, w.down, b.gate.data(), rows, b.projected.data());
  ForRows(pool_, rows, [&](size_t r) {
    float* projected = &b.projected[r * config_.hidden];
    if (config_.post_norms) {
      RmsNorm(projected, w.post_feed_forward_norm.data(), config_.hidden, config_.rms_epsilon,
              projected);
    }
    AddInPlace(projected, config_.hidden, &b.hidden[r * config_.hidden]);
  });
}

void Transformer::ComputeLogits(Pass pass, std::span<const SequenceStep> steps) {
  Buffers& b = *buffers_;
  const uint32_t hidden = config_.hidden;
  size_t row = 0;
  size_t wanted = 0;
  float* logits = nullptr;
  Pass logits_pass = Pass::kDecode;
  for (const SequenceStep& step : steps) {
    const size_t end = row + step.tokens.size();
    for (size_t r = end - step.num_logits; r < end; ++r) {
      RmsNorm(&b.hidden[r * hidden], weights_.output_norm.data(), hidden, config_.rms_epsilon,
              &b.normed[wanted * hidden]);
      ++wanted;
    }
    if (step.num_logits > 0) {
      if (logits == nullptr) logits = step.logits;
      KVANT_CHECK(step.logits + step.num_logits * config_.vocabulary ==
                  logits + wanted * config_.vocabulary);
      logits_pass = pass == Pass::kDecode ? Pass::kDecode : step.logits_pass;
    }
    row = end;
  }
  if (wanted > 0) Dense(logits_pass, weights_.unembedding, b.normed.data(), wanted, logits);
}

}  // namespace kvant
