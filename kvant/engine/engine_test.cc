#include "kvant/engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/engine/tiny_model.h"
#include "kvant/memory/memory_budget.h"

namespace kvant {
namespace {

EngineOptions Options(size_t threads = 1, uint32_t chunk = 256) {
  EngineOptions options;
  options.memory_bytes = 256ULL << 20;
  options.num_threads = threads;
  options.max_context = 2048;
  options.prefill_chunk = chunk;
  return options;
}

Model TinyModel(const std::string& architecture) {
  TinyShape shape;
  shape.architecture = architecture;
  return TinyModelBuilder(shape).Build();
}

std::vector<TokenId> RandomPrompt(size_t length, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> tokens(length);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(256));
  return tokens;
}

Request MakeRequest(const std::vector<TokenId>& prompt, PlanId plan, uint32_t tokens = 12) {
  Request request;
  request.prompt = prompt;
  request.plan = plan;
  request.max_new_tokens = tokens;
  request.ignore_end_of_text = true;
  request.log_probabilities = true;
  request.top_log_probabilities = 3;
  return request;
}

// Tokens and the exact bits of their log-probabilities.
void ExpectSame(const Completion& a, const Completion& b, const std::string& what) {
  EXPECT_EQ(a.tokens, b.tokens) << what;
  ASSERT_EQ(a.log_probabilities.size(), b.log_probabilities.size()) << what;
  for (size_t i = 0; i < a.log_probabilities.size(); ++i) {
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(a.log_probabilities[i].top[j].token, b.log_probabilities[i].top[j].token) << what;
      EXPECT_EQ(a.log_probabilities[i].top[j].log_probability,
                b.log_probabilities[i].top[j].log_probability)
          << what << " token " << i;
    }
  }
}

struct PlanCase {
  std::string architecture;
  std::string plan;
};

const std::vector<PlanCase> kPlans = {{"llama", "bf16"},
                                      {"llama", "int8"},
                                      {"llama", "int4"},
                                      {"llama", "fp8_e4m3"},
                                      {"llama", "int8,sink_tokens=64"},
                                      {"llama", "int4_per_token_head"},
                                      {"qwen2", "int8+bias_removed"},
                                      {"gemma3", "int8,skip=sliding_window"},
                                      {"gemma3", "int4"}};

Completion RunAlone(const PlanCase& test, const EngineOptions& options,
                    const std::vector<TokenId>& prompt) {
  Engine engine(TinyModel(test.architecture), options);
  const PlanId plan = engine.AddPlan(MakeKvPlan(test.plan, engine.model().geometry));
  return engine.Generate(MakeRequest(prompt, plan));
}

TEST(Engine, BatchThreadsAndChunksChangeNoBit) {
  const std::vector<TokenId> prompt = RandomPrompt(333, 1);
  for (const PlanCase& test : kPlans) {
    const std::string what = test.architecture + " " + test.plan;
    const Completion alone = RunAlone(test, Options(1), prompt);
    ExpectSame(alone, RunAlone(test, Options(2), prompt), what + ", 2 threads");
    ExpectSame(alone, RunAlone(test, Options(1, 64), prompt), what + ", chunks of 64");

    Engine engine(TinyModel(test.architecture), Options(2));
    const PlanId plan = engine.AddPlan(MakeKvPlan(test.plan, engine.model().geometry));
    const PlanId other = engine.AddPlan(MakeKvPlan("bf16", engine.model().geometry));
    Completion batched;
    for (uint64_t i = 0; i < 8; ++i) {
      RequestCallbacks callbacks;
      if (i == 3) callbacks.on_completion = [&](const Completion& c) { batched = c; };
      engine.Submit(
          i == 3 ? MakeRequest(prompt, plan)
                 : MakeRequest(RandomPrompt(20 + 70 * i, 100 + i), i % 2 == 0 ? plan : other, 30),
          std::move(callbacks));
    }
    engine.RunUntilIdle();
    ExpectSame(alone, batched, what + ", among 8");
  }
}

TEST(Engine, APrefixThatIsThereAlreadyChangesNoBit) {
  const std::vector<TokenId> prompt = RandomPrompt(400, 2);
  for (const PlanCase& test : kPlans) {
    Engine engine(TinyModel(test.architecture), Options());
    const PlanId plan = engine.AddPlan(MakeKvPlan(test.plan, engine.model().geometry));
    const Completion first = engine.Generate(MakeRequest(prompt, plan));
    EXPECT_EQ(first.cached_tokens, 0U);
    const Completion second = engine.Generate(MakeRequest(prompt, plan));
    EXPECT_GE(second.cached_tokens, 320U) << test.plan;
    ExpectSame(first, second, test.architecture + " " + test.plan);
    Request salted = MakeRequest(prompt, plan);
    salted.salt = "another tenant";
    EXPECT_EQ(engine.Generate(std::move(salted)).cached_tokens, 0U);
  }
}

TEST(Engine, ScoringDoesNotDependOnHowItIsCut) {
  const std::vector<TokenId> tokens = RandomPrompt(300, 3);
  for (const PlanCase& test : kPlans) {
    Engine engine(TinyModel(test.architecture), Options(2));
    const PlanId plan = engine.AddPlan(MakeKvPlan(test.plan, engine.model().geometry));
    const size_t vocabulary = engine.model().config.vocabulary;
    std::vector<float> whole(tokens.size() * vocabulary);
    engine.StartScoring(plan, 300)->Advance(tokens, Pass::kPrefill, whole);
    std::vector<float> pieces(whole.size());
    const auto sequence = engine.StartScoring(plan, 300);
    for (size_t first = 0, step = 1; first < tokens.size(); step = step * 3 % 101) {
      const size_t count = std::min(step, tokens.size() - first);
      sequence->Advance(std::span(tokens).subspan(first, count), Pass::kPrefill,
                        std::span(pieces).subspan(first * vocabulary, count * vocabulary));
      first += count;
    }
    EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)), 0)
        << test.architecture << " " << test.plan;

    // One by one through the decode pass: the same but for rounding.
    std::vector<float> decoded(whole.size());
    engine.StartScoring(plan, 300)->Advance(tokens, Pass::kDecode, decoded);
    double worst = 0;
    double largest = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      worst = std::max<double>(worst, std::fabs(whole[i] - decoded[i]));
      largest = std::max<double>(largest, std::fabs(whole[i]));
    }
    const bool quantized = test.plan != "bf16";
    // A rounding difference may move a value to its neighbour code: one step of the format.
    EXPECT_LT(worst, (quantized ? 0.2 : 0.05) * largest) << test.architecture << " " << test.plan;
  }
}

TEST(Engine, AForkHasThePastOfItsOriginAndAFutureOfItsOwn) {
  const std::vector<TokenId> tokens = RandomPrompt(150, 4);
  for (const PlanCase& test : kPlans) {
    Engine engine(TinyModel(test.architecture), Options(1));
    const PlanId plan = engine.AddPlan(MakeKvPlan(test.plan, engine.model().geometry));
    const size_t vocabulary = engine.model().config.vocabulary;
    const auto past = std::span(tokens).first(100);
    const auto future = std::span(tokens).last(50);
    const auto origin = engine.StartScoring(plan, 150);
    origin->Skip(past, Pass::kPrefill);
    const auto fork = origin->Fork();
    std::vector<float> other(50 * vocabulary);
    fork->Advance(past.first(50), Pass::kPrefill, other);  // another future, in the shared block
    std::vector<float> continued(50 * vocabulary);
    origin->Advance(future, Pass::kPrefill, continued);
    std::vector<float> alone(50 * vocabulary);
    const auto fresh = engine.StartScoring(plan, 150);
    fresh->Skip(past, Pass::kPrefill);
    fresh->Advance(future, Pass::kPrefill, alone);
    EXPECT_EQ(std::memcmp(continued.data(), alone.data(), alone.size() * sizeof(float)), 0)
        << test.architecture << " " << test.plan;
    EXPECT_NE(std::memcmp(other.data(), alone.data(), alone.size() * sizeof(float)), 0);
  }
}

TEST(Engine, QuantizingMovesLogitsAndBetterFormatsMoveThemLess) {
  const std::vector<TokenId> tokens = RandomPrompt(512, 4);
  Engine engine(TinyModel("llama"), Options());
  const size_t vocabulary = engine.model().config.vocabulary;
  const auto logits = [&](const char* text) {
    std::vector<float> out(tokens.size() * vocabulary);
    const PlanId plan = engine.AddPlan(MakeKvPlan(text, engine.model().geometry));
    engine.StartScoring(plan, 512)->Advance(tokens, Pass::kPrefill, out);
    return out;
  };
  const std::vector<float> exact = logits("fp32");
  const auto error = [&](const char* text) {
    const std::vector<float> got = logits(text);
    double sum = 0;
    for (size_t i = 256 * vocabulary; i < got.size(); ++i) {
      sum += std::pow(static_cast<double>(got[i]) - exact[i], 2);
    }
    return sum;
  };
  const double int8 = error("int8");
  const double int4 = error("int4");
  const double int2 = error("int2");
  EXPECT_GT(int8, 0);
  EXPECT_GT(int4, 5 * int8);
  EXPECT_GT(int2, 1.5 * int4);
}

TEST(Engine, BlocksAreFreedAtOnceOnCancel) {
  Engine engine(TinyModel("llama"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("int8", engine.model().geometry));
  Request request = MakeRequest(RandomPrompt(700, 5), plan, 500);
  request.reuse_prefix = false;
  Completion completion;
  RequestCallbacks callbacks;
  callbacks.on_completion = [&](const Completion& c) { completion = c; };
  const RequestId id = engine.Submit(std::move(request), std::move(callbacks));
  for (int i = 0; i < 5; ++i) engine.Step();
  EXPECT_GT(engine.pool_usage().used_bytes, 0U);
  engine.Cancel(id);
  EXPECT_EQ(completion.finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.pool_usage().used_bytes, 0U);
  EXPECT_EQ(engine.pool_usage().reserved_bytes, 0U);
  EXPECT_FALSE(engine.Step());
}

TEST(Engine, WhatDoesNotFitWaitsAndWhatNeverFitsIsRefused) {
  EngineOptions options = Options();
  Engine probe(TinyModel("llama"), options);
  const uint64_t fixed = options.memory_bytes - probe.budget().pool;
  const PlanId bf16 = probe.AddPlan(MakeKvPlan("bf16", probe.model().geometry));
  const CacheLayout& layout = *probe.plan(bf16).layout.cache;
  const uint64_t pool =
      2 * PeakBytes(layout, 600, 1) + StepHeadroomBytes(layout, options.prefill_chunk);
  EXPECT_EQ(SequencesThatFit(layout, pool, 600, options.prefill_chunk), 2U);
  EXPECT_EQ(SequencesThatFit(layout, pool - 1, 600, options.prefill_chunk), 1U);
  options.memory_bytes = fixed + pool;
  Engine engine(TinyModel("llama"), options);
  const PlanId plan = engine.AddPlan(MakeKvPlan("bf16", engine.model().geometry));
  int finished = 0;
  for (uint64_t i = 0; i < 5; ++i) {
    RequestCallbacks callbacks;
    callbacks.on_completion = [&](const Completion& c) {
      ++finished;
      EXPECT_EQ(c.tokens.size(), 100U);
    };
    engine.Submit(MakeRequest(RandomPrompt(500, i), plan, 100), std::move(callbacks));
  }
  size_t most_running = 0;
  while (engine.Step()) {
    most_running = std::max(most_running, engine.num_running());
    EXPECT_LE(engine.pool_usage().committed_bytes, engine.budget().pool);
  }
  EXPECT_EQ(most_running, 2U);
  EXPECT_EQ(finished, 5);
  try {
    engine.Submit(MakeRequest(RandomPrompt(1900, 9), plan, 100), {});
    FAIL() << "accepted what never fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOverBudget);
    EXPECT_NE(error.message().find("KV pool"), std::string::npos) << error.message();
  }
  options.memory_bytes = fixed / 2;
  EXPECT_THROW(Engine(TinyModel("llama"), options), Error);
}

TEST(Engine, CheckpointsThatContradictThemselvesAreRefused) {
  TinyShape shape;
  shape.embedding_rows = TinyModelBuilder::kVocabulary - 1;
  EXPECT_THROW(TinyModelBuilder(shape).Build(), Error);
  TinyModelBuilder unread((TinyShape()));
  unread.gguf().FloatTensor("blk.0.attn_output.bias", {128}, std::vector<float>(128));
  EXPECT_THROW(unread.Build(), Error) << "a bias that would be left out";
}

TEST(Engine, ACallbackMayCancelAnyRequest) {
  Engine engine(TinyModel("llama"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("bf16", engine.model().geometry));
  std::vector<RequestId> ids;
  std::vector<FinishReason> finished;
  for (uint64_t i = 0; i < 3; ++i) {
    RequestCallbacks callbacks;
    callbacks.on_completion = [&](const Completion& c) { finished.push_back(c.finish); };
    callbacks.on_token = [&](const TokenEvent& event) {
      // The second request's first token cancels all: an earlier, itself, a later of the batch.
      if (event.request != ids[1]) return;
      for (const RequestId id : ids) engine.Cancel(id);
    };
    ids.push_back(engine.Submit(MakeRequest(RandomPrompt(20, i), plan, 30), std::move(callbacks)));
  }
  engine.RunUntilIdle();
  EXPECT_EQ(finished, std::vector<FinishReason>(3, FinishReason::kCancelled));
  EXPECT_EQ(engine.pool_usage().used_bytes, 0U);
  EXPECT_EQ(engine.pool_usage().reserved_bytes, 0U);
}

TEST(Engine, ARequestThatScoringLeavesNoMemoryForIsRefused) {
  EngineOptions options = Options();
  Engine probe(TinyModel("llama"), options);
  const uint64_t fixed = options.memory_bytes - probe.budget().pool;
  const PlanId bf16 = probe.AddPlan(MakeKvPlan("bf16", probe.model().geometry));
  const CacheLayout& layout = *probe.plan(bf16).layout.cache;
  options.memory_bytes =
      fixed + PeakBytes(layout, 600, 1) + StepHeadroomBytes(layout, options.prefill_chunk);
  Engine engine(TinyModel("llama"), options);
  const PlanId plan = engine.AddPlan(MakeKvPlan("bf16", engine.model().geometry));
  {
    const auto scoring = engine.StartScoring(plan, 600);
    EXPECT_THROW(engine.Generate(MakeRequest(RandomPrompt(100, 1), plan, 10)), Error);
  }
  EXPECT_EQ(engine.Generate(MakeRequest(RandomPrompt(100, 1), plan, 10)).tokens.size(), 10U);
}

TEST(Engine, HostileRequestsAreRefused) {
  Engine engine(TinyModel("llama"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("int8", engine.model().geometry));
  const auto refused = [&](const std::function<void(Request&)>& change) {
    Request request = MakeRequest({1, 2, 3}, plan);
    change(request);
    EXPECT_THROW(engine.Submit(std::move(request), {}), Error);
  };
  refused([](Request& r) { r.prompt.clear(); });
  refused([](Request& r) { r.prompt[1] = -1; });
  refused([](Request& r) { r.prompt[1] = 258; });
  refused([](Request& r) { r.max_new_tokens = 0; });
  refused([](Request& r) { r.max_new_tokens = 100000; });
  refused([](Request& r) { r.plan = 77; });
  refused([](Request& r) { r.sampling.temperature = -1; });
  EXPECT_EQ(engine.Generate(MakeRequest({1, 2, 3}, plan)).tokens.size(), 12U);
}

TEST(Engine, SlidingWindowsFreeTheirBlocks) {
  Engine engine(TinyModel("gemma3"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("int8", engine.model().geometry));
  const std::vector<TokenId> tokens = RandomPrompt(2000, 6);
  const auto sequence = engine.StartScoring(plan, 2048);
  sequence->Skip(std::span(tokens).first(1024), Pass::kPrefill);
  const uint64_t at_1024 = sequence->held_bytes();
  sequence->Skip(std::span(tokens).subspan(1024, 960), Pass::kPrefill);
  const uint64_t at_1984 = sequence->held_bytes();
  // Only the one full layer of three grows.
  const double grown = static_cast<double>(at_1984 - at_1024) / 960;
  const double one_layer = SealedBytesPerToken(engine.plan(plan).layout) / 3;
  EXPECT_NEAR(grown, one_layer, 0.01 * one_layer);
}

TEST(Engine, StopsWhereItIsTold) {
  Engine engine(TinyModel("llama"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("int8", engine.model().geometry));
  Request free = MakeRequest(RandomPrompt(50, 7), plan, 40);
  const Completion all = engine.Generate(free);
  ASSERT_EQ(all.tokens.size(), 40U);
  EXPECT_EQ(all.finish, FinishReason::kLength);
  Request stopped = free;
  stopped.stop_tokens = {all.tokens[20]};
  const Completion by_token = engine.Generate(stopped);
  EXPECT_EQ(by_token.finish, FinishReason::kStop);
  EXPECT_LE(by_token.tokens.size(), 20U);
  // A stop string is cut off, and nothing of it is ever streamed.
  Request text = free;
  const size_t at = all.text.size() / 2;
  text.stop_strings = {all.text.substr(at, 3)};
  const size_t found = all.text.find(text.stop_strings[0]);
  std::string streamed;
  const Completion by_text =
      engine.Generate(text, [&](const TokenEvent& event) { streamed += event.text; });
  EXPECT_EQ(by_text.text, all.text.substr(0, found));
  EXPECT_EQ(streamed, by_text.text);
}

TEST(Engine, StreamedTextIsTheWholeText) {
  Engine engine(TinyModel("qwen2"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("bf16", engine.model().geometry));
  std::string streamed;
  const Completion done = engine.Generate(MakeRequest(RandomPrompt(30, 8), plan, 60),
                                          [&](const TokenEvent& event) { streamed += event.text; });
  EXPECT_EQ(streamed, done.text);
}

TEST(Engine, PromptLogProbabilitiesAreTheScoredOnes) {
  Engine engine(TinyModel("llama"), Options());
  const PlanId plan = engine.AddPlan(MakeKvPlan("int8", engine.model().geometry));
  const std::vector<TokenId> prompt = RandomPrompt(150, 9);
  Request request = MakeRequest(prompt, plan, 1);
  request.prompt_log_probabilities = true;
  const Completion done = engine.Generate(request);
  ASSERT_EQ(done.prompt_log_probabilities.size(), prompt.size() - 1);
  const size_t vocabulary = engine.model().config.vocabulary;
  std::vector<float> logits(prompt.size() * vocabulary);
  engine.StartScoring(plan, 150)->Advance(prompt, Pass::kPrefill, logits);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    const SampledToken expected =
        LogProbabilities(std::span(logits).subspan(i * vocabulary, vocabulary), prompt[i + 1], 0);
    EXPECT_EQ(done.prompt_log_probabilities[i].log_probability, expected.log_probability) << i;
  }
}

}  // namespace
}  // namespace kvant
