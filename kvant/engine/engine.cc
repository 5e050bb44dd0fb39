#include "kvant/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "kvant/core/bytes.h"
#include "kvant/core/error.h"
#include "kvant/model/tokenizer/detokenizer.h"

namespace kvant {

namespace {

// Rows of logits kept for prompt log-probabilities, so that their memory is known beforehand.
constexpr uint32_t kPromptLogitRows = 32;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TransformerLimits LimitsOf(const EngineOptions& options, uint64_t max_context) {
  TransformerLimits limits;
  limits.max_rows = std::max(options.prefill_chunk, options.max_batch);
  limits.max_positions = max_context;
  limits.max_sequences = options.max_batch;
  return limits;
}

uint32_t LogitRows(const EngineOptions& options) {
  return std::max(options.max_batch, kPromptLogitRows);
}

FixedBytes FixedBytesOf(const Model& model, const EngineOptions& options, uint64_t max_context) {
  const uint64_t row = uint64_t{model.config.vocabulary} * sizeof(float);
  FixedBytes fixed;
  fixed.weights = model.weights.bytes;
  fixed.workspace = Transformer::WorkspaceBytes(model.config, LimitsOf(options, max_context),
                                                options.num_threads);
  fixed.logits = CheckedAdd(row * LogitRows(options), options.scoring_bytes, "logits");
  fixed.tokenizer = model.tokenizer_bytes;
  return fixed;
}

void CheckOptions(const EngineOptions& options) {
  if (options.max_batch < 1 || options.max_batch > 64) {
    throw Error(ErrorCode::kUsage,
                fmt::format("max_batch {} is outside 1 … 64", options.max_batch));
  }
  if (options.prefill_chunk < kBlockTokens || options.prefill_chunk % kBlockTokens != 0 ||
      options.prefill_chunk > 4096) {
    throw Error(ErrorCode::kUsage,
                fmt::format("prefill_chunk {} is not a multiple of {} up to 4096",
                            options.prefill_chunk, kBlockTokens));
  }
}

EngineOptions WithDefaults(EngineOptions options) {
  CheckOptions(options);
  if (!options.clock) options.clock = SteadySeconds;
  return options;
}

}  // namespace

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "cancelled";
}

struct Engine::Sequence {
  Sequence(Request r, RequestCallbacks c, const Tokenizer& tokenizer)
      : request(std::move(r)),
        callbacks(std::move(c)),
        sampler(request.sampling, request.prompt),
        detokenizer(tokenizer) {}

  RequestId id = 0;
  Request request;
  RequestCallbacks callbacks;
  Sampler sampler;
  StreamingDetokenizer detokenizer;
  std::unique_ptr<BlockTable> blocks;  // from admission on
  uint64_t reserved_bytes = 0;
  uint64_t prefilled = 0;  // tokens of the prompt whose K and V are in the cache
  PrefixCursor cursor;
  size_t emitted_text = 0;       // bytes of completion.text already given to on_token
  std::vector<TokenId> history;  // prompt and output: what the cache holds, or will
  Completion completion;
  bool finished = false;

  bool prefilling() const { return prefilled < request.prompt.size(); }
};

// --- ScoringSequence ---------------------------------------------------------------------------

ScoringSequence::ScoringSequence(Engine* engine, PlanId plan, uint64_t max_tokens,
                                 uint64_t reserved_bytes)
    : engine_(engine),
      plan_(plan),
      max_tokens_(max_tokens),
      reserved_bytes_(reserved_bytes),
      blocks_(engine->pool_, engine->plans_[plan].layout.cache) {}

ScoringSequence::~ScoringSequence() { engine_->pool_.Unreserve(reserved_bytes_); }

std::unique_ptr<ScoringSequence> ScoringSequence::Fork() const {
  std::unique_ptr<ScoringSequence> fork = engine_->StartScoring(plan_, max_tokens_);
  fork->blocks_ = blocks_.Fork();
  return fork;
}

void ScoringSequence::Run(std::span<const TokenId> tokens, Pass pass, float* logits) {
  const size_t vocabulary = engine_->model_.config.vocabulary;
  const size_t step_tokens = pass == Pass::kDecode ? 1 : engine_->options_.prefill_chunk;
  for (size_t done = 0; done < tokens.size();) {
    const size_t count = std::min(step_tokens, tokens.size() - done);
    engine_->PrepareBlocks(&blocks_, count);
    SequenceStep step;
    step.tokens = tokens.subspan(done, count);
    step.blocks = &blocks_;
    step.plan = &engine_->plans_[plan_].layout;
    step.counts = &engine_->plans_[plan_].counts;
    if (logits != nullptr) {
      step.num_logits = count;
      step.logits = logits + done * vocabulary;
      step.logits_pass = pass;
    }
    engine_->transformer_->Forward(pass, std::span(&step, 1));
    blocks_.Commit(count);
    done += count;
  }
}

void ScoringSequence::Advance(std::span<const TokenId> tokens, Pass pass, std::span<float> logits) {
  KVANT_CHECK(logits.size() >= tokens.size() * engine_->model_.config.vocabulary);
  Run(tokens, pass, logits.data());
}

void ScoringSequence::Skip(std::span<const TokenId> tokens, Pass pass) {
  Run(tokens, pass, nullptr);
}

// --- Engine ------------------------------------------------------------------------------------

Engine::Engine(Model model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(WithDefaults(options)),
      max_context_(options.max_context == 0 ? model_.config.context_length : options.max_context),
      threads_(options.num_threads),
      budget_(
          MakeMemoryBudget(options.memory_bytes, FixedBytesOf(model_, options_, max_context_), 1)),
      pool_(budget_.pool),
      prefixes_(pool_) {
  const TransformerLimits limits = LimitsOf(options_, max_context_);
  transformer_ =
      std::make_unique<Transformer>(model_.config, std::move(model_.weights), limits, threads_);
  logits_.resize(size_t{LogitRows(options_)} * model_.config.vocabulary);
}

Engine::~Engine() = default;

PlanId Engine::AddPlan(const KvPlan& plan) {
  const Digest digest = PlanDigest(plan);
  for (PlanId id = 0; id < plans_.size(); ++id) {
    if (plans_[id].layout.cache->plan_digest == digest) return id;
  }
  PlanState state;
  state.layout = MakePlanLayout(plan, model_.geometry, model_.config.window_tokens);
  state.counts.resize(model_.config.num_layers);
  for (const GroupLayout& group : state.layout.cache->groups) {
    if (!group.append) pool_.AddSizeClass(group.open_block_bytes);
    if (!group.open_is_sealed) pool_.AddSizeClass(group.sealed_block_bytes);
  }
  headroom_bytes_ =
      std::max(headroom_bytes_, StepHeadroomBytes(*state.layout.cache, options_.prefill_chunk));
  plans_.push_back(std::move(state));
  return static_cast<PlanId>(plans_.size() - 1);
}

uint64_t Engine::PeakOf(PlanId plan, uint64_t tokens) const {
  return PeakBytes(*plans_[plan].layout.cache, tokens, 1);
}

// Only one sequence at a time makes a step of more than one token, so all share one headroom.
bool Engine::Reserve(uint64_t bytes) {
  const uint64_t taken = pool_.usage().reserved_bytes + headroom_bytes_;
  return taken <= budget_.pool && bytes <= budget_.pool - taken && pool_.Reserve(bytes);
}

void Engine::Validate(const Request& request) const {
  if (request.plan >= plans_.size()) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no plan {}", request.plan));
  }
  ValidateSampling(request.sampling, model_.config.vocabulary);
  if (request.prompt.empty()) {
    throw Error(ErrorCode::kInvalidInput, "the prompt is empty", "give at least one token");
  }
  for (const TokenId token : request.prompt) {
    if (token < 0 || static_cast<uint32_t>(token) >= model_.config.vocabulary) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("token id {} is outside the vocabulary of {}", token,
                              model_.config.vocabulary));
    }
  }
  if (request.max_new_tokens == 0 && !request.prompt_log_probabilities) {
    throw Error(ErrorCode::kUsage, "max_new_tokens is 0", "ask for at least one token");
  }
  const uint64_t total = uint64_t{request.prompt.size()} + request.max_new_tokens;
  if (total > max_context_) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("prompt of {} tokens + {} new tokens = {} is over the context of {}",
                            request.prompt.size(), request.max_new_tokens, total, max_context_),
                "shorten the prompt or ask for fewer tokens");
  }
  const uint64_t peak = CheckedAdd(PeakOf(request.plan, total), headroom_bytes_, "KV blocks");
  if (peak > budget_.pool) {
    throw Error(ErrorCode::kOverBudget,
                fmt::format("{} tokens under plan '{}' need {} of KV blocks; the pool has {} ({})",
                            total, plans_[request.plan].layout.plan.name, FormatBytes(peak),
                            FormatBytes(budget_.pool), DescribeBudget(budget_)),
                "raise --memory, shorten the request or choose a smaller format");
  }
}

RequestId Engine::Submit(Request request, RequestCallbacks callbacks) {
  Validate(request);
  if (waiting_.size() >= options_.max_waiting) {
    throw Error(ErrorCode::kOverBudget,
                fmt::format("the queue is full: {} requests wait", waiting_.size()),
                "try again later");
  }
  auto sequence =
      std::make_unique<Sequence>(std::move(request), std::move(callbacks), *model_.tokenizer);
  sequence->id = next_request_++;
  sequence->history = sequence->request.prompt;
  sequence->completion.request = sequence->id;
  sequence->completion.prompt_tokens = sequence->request.prompt.size();
  sequence->completion.submitted_s = Now();
  const RequestId id = sequence->id;
  waiting_.push_back(std::move(sequence));
  return id;
}

void Engine::Cancel(RequestId request) {
  if (stepping_) {  // a step holds what Finish would free
    cancelled_.push_back(request);
    return;
  }
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if ((*it)->id != request) continue;
    const std::unique_ptr<Sequence> sequence = std::move(*it);
    waiting_.erase(it);
    Finish(sequence.get(), FinishReason::kCancelled);
    return;
  }
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->id == request && !sequence->finished) {
      Finish(sequence.get(), FinishReason::kCancelled);
    }
  }
}

PrefixRoot Engine::RootOf(const Request& request) const {
  PrefixIdentity identity;
  identity.tenant_salt = request.salt;
  identity.model_digest = model_.digest;
  return MakePrefixRoot(identity, plans_[request.plan].layout.cache);
}

void Engine::AdoptPrefix(Sequence* sequence) {
  // Prompt log-probabilities need every position computed.
  const Request& request = sequence->request;
  if (!request.reuse_prefix || request.prompt_log_probabilities) return;
  const PrefixHit hit = prefixes_.Find(RootOf(request), request.prompt, false);
  if (hit.tokens == 0) return;
  sequence->blocks->AdoptPrefix(hit.tokens, hit.blocks);
  sequence->cursor = hit.cursor;
  sequence->prefilled = hit.tokens;
  sequence->completion.cached_tokens = hit.tokens;
}

void Engine::IndexBlocks(Sequence* sequence) {
  if (!sequence->request.reuse_prefix) return;
  prefixes_.Insert(RootOf(sequence->request), sequence->history, sequence->request.prompt.size(),
                   *sequence->blocks, &sequence->cursor);
}

void Engine::PrepareBlocks(BlockTable* blocks, uint64_t tokens) {
  while (!blocks->Prepare(tokens)) {
    // Every admitted sequence's blocks fit its reservation, so only the index can be in the way.
    const uint64_t wanted = blocks->BytesFor(tokens);
    KVANT_CHECK(prefixes_.Evict(wanted) > 0);
  }
}

void Engine::Admit() {
  while (!waiting_.empty() && running_.size() < options_.max_batch) {
    Sequence* sequence = waiting_.front().get();
    const uint64_t peak = PeakOf(
        sequence->request.plan, sequence->request.prompt.size() + sequence->request.max_new_tokens);
    if (!Reserve(peak)) return;
    sequence->reserved_bytes = peak;
    sequence->blocks =
        std::make_unique<BlockTable>(pool_, plans_[sequence->request.plan].layout.cache);
    sequence->completion.admitted_s = Now();
    AdoptPrefix(sequence);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Engine::PrefillOneChunk() {
  const auto it = std::find_if(running_.begin(), running_.end(), [](const auto& sequence) {
    return !sequence->finished && sequence->prefilling();
  });
  if (it == running_.end()) return false;
  Sequence* sequence = it->get();
  const std::vector<TokenId>& prompt = sequence->request.prompt;
  const uint64_t first = sequence->prefilled;
  uint64_t chunk = options_.prefill_chunk - first % options_.prefill_chunk;
  if (sequence->request.prompt_log_probabilities) {
    chunk = std::min<uint64_t>(chunk, kPromptLogitRows);
  }
  const uint64_t count = std::min<uint64_t>(chunk, prompt.size() - first);
  const bool last = first + count == prompt.size();
  PrepareBlocks(sequence->blocks.get(), count);
  SequenceStep step;
  step.tokens = std::span(prompt).subspan(first, count);
  step.blocks = sequence->blocks.get();
  step.plan = &plans_[sequence->request.plan].layout;
  step.counts = &plans_[sequence->request.plan].counts;
  step.logits = logits_.data();
  if (sequence->request.prompt_log_probabilities) {
    step.num_logits = count;
    step.logits_pass = Pass::kPrefill;
  } else if (last) {
    step.num_logits = 1;
  }
  transformer_->Forward(Pass::kPrefill, std::span(&step, 1));
  sequence->blocks->Commit(count);
  sequence->prefilled += count;
  IndexBlocks(sequence);
  if (sequence->request.prompt_log_probabilities) {
    CollectPromptLogProbabilities(sequence, first, count);
  }
  if (!last) return true;
  if (sequence->request.max_new_tokens == 0) {
    Finish(sequence, FinishReason::kLength);
    return true;
  }
  const size_t vocabulary = model_.config.vocabulary;
  TakeToken(sequence, std::span(logits_).subspan((step.num_logits - 1) * vocabulary, vocabulary));
  return true;
}

void Engine::CollectPromptLogProbabilities(Sequence* sequence, uint64_t first, uint64_t count) {
  const std::vector<TokenId>& prompt = sequence->request.prompt;
  const size_t vocabulary = model_.config.vocabulary;
  for (uint64_t i = 0; i < count && first + i + 1 < prompt.size(); ++i) {
    sequence->completion.prompt_log_probabilities.push_back(
        LogProbabilities(std::span(logits_).subspan(i * vocabulary, vocabulary),
                         prompt[first + i + 1], sequence->request.top_log_probabilities));
  }
}

bool Engine::DecodeOnce() {
  std::vector<Sequence*> batch;
  std::vector<SequenceStep> steps;
  const size_t vocabulary = model_.config.vocabulary;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->finished || sequence->prefilling()) continue;
    PrepareBlocks(sequence->blocks.get(), 1);
    SequenceStep step;
    step.tokens = std::span(sequence->history).last(1);
    step.blocks = sequence->blocks.get();
    step.plan = &plans_[sequence->request.plan].layout;
    step.counts = &plans_[sequence->request.plan].counts;
    step.num_logits = 1;
    step.logits = logits_.data() + batch.size() * vocabulary;
    steps.push_back(step);
    batch.push_back(sequence.get());
  }
  if (batch.empty()) return false;
  transformer_->Forward(Pass::kDecode, steps);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i]->blocks->Commit(1);
    IndexBlocks(batch[i]);
    TakeToken(batch[i], std::span(logits_).subspan(i * vocabulary, vocabulary));
  }
  return true;
}

void Engine::TakeToken(Sequence* sequence, std::span<const float> logits) {
  const Request& request = sequence->request;
  Completion& completion = sequence->completion;
  const TokenId token = sequence->sampler.Sample(logits, sequence->history.size());
  if (completion.tokens.empty()) completion.first_token_s = Now();
  const bool stops = (!request.ignore_end_of_text && model_.tokenizer->IsEndOfGeneration(token)) ||
                     std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
                         request.stop_tokens.end();
  if (stops) {
    Finish(sequence, FinishReason::kStop);
    return;
  }
  completion.tokens.push_back(token);
  if (request.log_probabilities) {
    completion.log_probabilities.push_back(
        LogProbabilities(logits, token, request.top_log_probabilities));
  }
  sequence->sampler.Accept(token);
  sequence->history.push_back(token);
  completion.text += sequence->detokenizer.Append(token);

  size_t longest_stop = 0;
  for (const std::string& stop : request.stop_strings) {
    longest_stop = std::max(longest_stop, stop.size());
    const size_t from = sequence->emitted_text;
    const size_t found = stop.empty() ? std::string::npos : completion.text.find(stop, from);
    if (found == std::string::npos) continue;
    completion.text.resize(found);
    Finish(sequence, FinishReason::kStop);
    return;
  }
  // Text that may be the beginning of a stop string is held back.
  const size_t held = longest_stop == 0 ? 0 : longest_stop - 1;
  const size_t sendable = completion.text.size() > held ? completion.text.size() - held : 0;
  if (sequence->callbacks.on_token) {
    const size_t from = std::min(sequence->emitted_text, completion.text.size());
    const size_t end = std::max(from, sendable);
    sequence->callbacks.on_token(
        {sequence->id, token, std::string_view(completion.text).substr(from, end - from)});
    sequence->emitted_text = end;
  }
  if (completion.tokens.size() >= request.max_new_tokens) {
    Finish(sequence, FinishReason::kLength);
  }
}

void Engine::Finish(Sequence* sequence, FinishReason reason) {
  sequence->finished = true;
  Completion& completion = sequence->completion;
  completion.finish = reason;
  completion.finished_s = Now();
  if (reason == FinishReason::kLength) completion.text += sequence->detokenizer.Flush();
  sequence->blocks.reset();
  pool_.Unreserve(std::exchange(sequence->reserved_bytes, 0));
  if (sequence->callbacks.on_token && sequence->emitted_text < completion.text.size()) {
    const TokenId token = completion.tokens.empty() ? 0 : completion.tokens.back();
    sequence->callbacks.on_token(
        {sequence->id, token, std::string_view(completion.text).substr(sequence->emitted_text)});
  }
  if (sequence->callbacks.on_completion) sequence->callbacks.on_completion(completion);
}

void Engine::RemoveFinished() {
  running_.remove_if([](const auto& sequence) { return sequence->finished; });
}

bool Engine::Step() {
  RemoveFinished();
  Admit();
  stepping_ = true;
  bool progress = false;
  try {
    progress = PrefillOneChunk();
    progress = DecodeOnce() || progress;
  } catch (...) {
    stepping_ = false;
    throw;
  }
  stepping_ = false;
  for (const RequestId request : std::exchange(cancelled_, {})) Cancel(request);
  RemoveFinished();
  return progress;
}

void Engine::RunUntilIdle() {
  while (Step()) {
  }
}

Completion Engine::Generate(Request request, std::function<void(const TokenEvent&)> on_token) {
  std::optional<Completion> result;
  RequestCallbacks callbacks;
  callbacks.on_token = std::move(on_token);
  callbacks.on_completion = [&result](const Completion& completion) { result = completion; };
  const RequestId id = Submit(std::move(request), std::move(callbacks));
  RunUntilIdle();
  if (!result) {
    Cancel(id);
    throw Error(ErrorCode::kOverBudget,
                fmt::format("the pool of {} has {} reserved by scoring sequences",
                            FormatBytes(budget_.pool), FormatBytes(pool_.usage().reserved_bytes)),
                "end them first, or raise --memory");
  }
  return *std::move(result);
}

std::unique_ptr<ScoringSequence> Engine::StartScoring(PlanId plan, uint64_t max_tokens) {
  KVANT_CHECK(plan < plans_.size());
  if (max_tokens > max_context_) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("{} tokens are over the context of {}", max_tokens, max_context_),
                "choose a shorter bucket or a longer --context");
  }
  const uint64_t peak = PeakOf(plan, max_tokens);
  if (!Reserve(peak)) {
    throw Error(
        ErrorCode::kOverBudget,
        fmt::format("{} tokens under plan '{}' need {} of KV blocks; the pool of {} has {} "
                    "reserved",
                    max_tokens, plans_[plan].layout.plan.name, FormatBytes(peak + headroom_bytes_),
                    FormatBytes(budget_.pool), FormatBytes(pool_.usage().reserved_bytes)),
        "raise --memory or choose a shorter bucket");
  }
  return std::unique_ptr<ScoringSequence>(new ScoringSequence(this, plan, max_tokens, peak));
}

}  // namespace kvant
