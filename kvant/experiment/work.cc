#include "kvant/experiment/work.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "kvant/evaluate/divergence.h"
#include "kvant/format/kv_plan.h"

namespace kvant {

namespace {

template <typename Body>
double SecondsOf(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  prefilled += other.prefilled;
  scored += other.scored;
  decoded += other.decoded;
  return *this;
}

EngineSpeed MeasureSpeed(Engine* engine) {
  const PlanId plan = engine->AddPlan(MakeKvPlan("bf16", engine->model().geometry));
  // A quarter each for what is thrown away (pages touched, threads awake), prefill and scoring;
  // a sixteenth for decoding.
  const uint64_t length = std::min<uint64_t>(512, engine->max_context());
  const std::vector<TokenId> tokens(std::max<uint64_t>(length / 4, 1), 0);
  const auto few = std::span(tokens).first(std::max<uint64_t>(length / 16, 1));
  const size_t vocabulary = engine->model().config.vocabulary;
  const auto sequence = engine->StartScoring(plan, length);
  sequence->Skip(tokens, Pass::kPrefill);
  EngineSpeed speed;
  speed.prefilled = SecondsOf([&] { sequence->Skip(tokens, Pass::kPrefill); }) /
                    static_cast<double>(tokens.size());
  std::vector<float> logits(few.size() * vocabulary);
  speed.scored = SecondsOf([&] {
                   sequence->Advance(few, Pass::kPrefill, logits);
                   for (size_t i = 0; i < few.size(); ++i) {
                     const auto row = std::span(logits).subspan(i * vocabulary, vocabulary);
                     Diverge(row, row, 0);
                   }
                 }) /
                 static_cast<double>(few.size());
  speed.decoded = SecondsOf([&] { sequence->Advance(few, Pass::kDecode, logits); }) /
                  static_cast<double>(few.size());
  return speed;
}

double SecondsFor(const Work& work, const EngineSpeed& speed) {
  return static_cast<double>(work.prefilled) * speed.prefilled +
         static_cast<double>(work.scored) * speed.scored +
         static_cast<double>(work.decoded) * speed.decoded;
}

}  // namespace kvant
