// Continuous batching of sequences with different plans over one pool of KV blocks.
//
// Single-threaded: one thread submits, steps and cancels. Each step runs one chunk of one waiting
// prompt, then one token of every running sequence. A request is admitted when the blocks of its
// full length fit what the budget has left, so that nothing admitted is ever evicted; what can
// never fit is refused at once, with the arithmetic.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvant/cache/block_pool.h"
#include "kvant/cache/block_table.h"
#include "kvant/cache/prefix_index.h"
#include "kvant/core/thread_pool.h"
#include "kvant/engine/model.h"
#include "kvant/engine/request.h"
#include "kvant/memory/memory_budget.h"
#include "kvant/memory/plan_layout.h"
#include "kvant/model/transformer.h"

namespace kvant {

struct EngineOptions {
  uint64_t memory_bytes = 0;  // of the whole process
  size_t num_threads = 1;
  uint64_t max_context = 0;      // 0: the model's trained context
  uint32_t prefill_chunk = 256;  // tokens; chunks end on multiples of it
  uint32_t max_batch = 16;       // sequences that decode together, at most 64
  uint32_t max_waiting = 1024;   // requests
  // Bytes of logits that a caller of ScoringSequence holds: part of the budget.
  uint64_t scoring_bytes = 0;
  std::function<double()> clock;  // seconds; empty: the steady clock
};

struct PlanState {
  PlanLayout layout;
  std::vector<LayerCounts> counts;  // per layer, everything written under this plan so far
};

class Engine;

// One sequence fed by the caller, all logits returned: divergence, and calibration.
class ScoringSequence {
 public:
  ~ScoringSequence();
  ScoringSequence(const ScoringSequence&) = delete;
  ScoringSequence& operator=(const ScoringSequence&) = delete;

  // Appends tokens and writes the logits of each, [tokens, vocabulary]. kDecode runs them one by
  // one, as generation would. REQUIRES: within the length given at the start.
  void Advance(std::span<const TokenId> tokens, Pass pass, std::span<float> logits);
  // The same without logits.
  void Skip(std::span<const TokenId> tokens, Pass pass);

  // Another sequence with the same past, whose blocks are shared. Throws Error{kOverBudget} if the
  // pool has no room for one more of the length given at the start.
  std::unique_ptr<ScoringSequence> Fork() const;

  uint64_t tokens() const { return blocks_.tokens(); }
  // Bytes of the blocks it holds.
  uint64_t held_bytes() const { return blocks_.held_bytes(); }

 private:
  friend class Engine;
  ScoringSequence(Engine* engine, PlanId plan, uint64_t max_tokens, uint64_t reserved_bytes);
  void Run(std::span<const TokenId> tokens, Pass pass, float* logits);

  Engine* engine_;
  PlanId plan_;
  uint64_t max_tokens_;
  uint64_t reserved_bytes_;
  BlockTable blocks_;
};

class Engine {
 public:
  // Throws Error{kOverBudget} if the budget does not hold the model and one short sequence.
  Engine(Model model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Model& model() const { return model_; }
  const EngineOptions& options() const { return options_; }
  const MemoryBudget& budget() const { return budget_; }
  PoolUsage pool_usage() const { return pool_.usage(); }
  uint64_t max_context() const { return max_context_; }

  // The same digest gives the same id.
  PlanId AddPlan(const KvPlan& plan);
  const PlanState& plan(PlanId id) const { return plans_[id]; }

  // Throws Error{kUsage} for parameters out of range, {kInvalidInput} for an empty prompt, a
  // prompt over the context or token ids outside the vocabulary, {kOverBudget} for what can never
  // fit or a full queue.
  RequestId Submit(Request request, RequestCallbacks callbacks);

  // Frees the request's blocks at once, or at the end of the step when called from a callback; its
  // completion says kCancelled. Unknown ids are ignored.
  void Cancel(RequestId request);

  // Runs one step; false when there is nothing to do, or nothing can be done: requests wait for
  // memory that scoring sequences hold.
  bool Step();
  void RunUntilIdle();

  // Submit, run until idle, return: for callers with one request. Throws Error{kOverBudget} if
  // scoring sequences leave it no memory.
  Completion Generate(Request request, std::function<void(const TokenEvent&)> on_token = nullptr);

  // A sequence of at most max_tokens. Throws Error{kOverBudget} if the pool has no room for it.
  std::unique_ptr<ScoringSequence> StartScoring(PlanId plan, uint64_t max_tokens);

  // Forgets every prefix.
  void ClearPrefixes() { prefixes_.Clear(); }
  PrefixStats prefix_stats() const { return prefixes_.stats(); }

  void set_observer(KvObserver* observer) { transformer_->set_observer(observer); }

  size_t num_waiting() const { return waiting_.size(); }
  size_t num_running() const { return running_.size(); }

 private:
  friend class ScoringSequence;
  struct Sequence;

  void Validate(const Request& request) const;
  // What a sequence reserves, the headroom of its steps apart.
  uint64_t PeakOf(PlanId plan, uint64_t tokens) const;
  // False if the pool has no room beside the sequences that are there and one of them in a step.
  bool Reserve(uint64_t bytes);
  void Admit();
  void AdoptPrefix(Sequence* sequence);
  bool PrefillOneChunk();
  bool DecodeOnce();
  void PrepareBlocks(BlockTable* blocks, uint64_t tokens);
  void CollectPromptLogProbabilities(Sequence* sequence, uint64_t first, uint64_t count);
  void TakeToken(Sequence* sequence, std::span<const float> logits);
  PrefixRoot RootOf(const Request& request) const;
  void IndexBlocks(Sequence* sequence);
  void Finish(Sequence* sequence, FinishReason reason);
  void RemoveFinished();
  double Now() const { return options_.clock(); }

  Model model_;
  EngineOptions options_;
  uint64_t max_context_;
  ThreadPool threads_;
  MemoryBudget budget_;
  BlockPool pool_;
  PrefixIndex prefixes_;
  std::unique_ptr<Transformer> transformer_;
  std::deque<PlanState> plans_;
  uint64_t headroom_bytes_ = 0;  // StepHeadroomBytes, the most of any plan
  std::vector<float> logits_;    // [max(max_batch, …), vocabulary]
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::list<std::unique_ptr<Sequence>> running_;
  RequestId next_request_ = 1;
  bool stepping_ = false;
  std::vector<RequestId> cancelled_;  // by callbacks, during this step
};

}  // namespace kvant
