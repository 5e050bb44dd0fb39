#include "kvant/evaluate/verdict.h"

#include <gtest/gtest.h>

#include "kvant/core/error.h"

namespace kvant {
namespace {

DivergenceCell Divergence(double kld, double half, uint64_t documents = 10) {
  DivergenceCell cell;
  cell.bucket = 2048;
  cell.documents = documents;
  cell.positions = documents * 1024;
  cell.mean_kld = kld;
  cell.low = kld - half;
  cell.high = kld + half;
  cell.same_top1 = 0.995;
  return cell;
}

NeedleCell Needles(uint64_t haystacks, uint64_t lost, uint64_t won) {
  NeedleCell cell;
  cell.bucket = 2048;
  cell.haystacks = haystacks;
  cell.questions = haystacks * 5;
  cell.baseline_right = haystacks * 5 - 3;
  cell.candidate_right = cell.baseline_right - lost + won;
  cell.haystacks_lost = lost;
  cell.haystacks_won = won;
  cell.losses.assign(haystacks, 0);
  for (uint64_t i = 0; i < lost; ++i) cell.losses[i] = 0.2;
  for (uint64_t i = lost; i < lost + won; ++i) cell.losses[i] = -0.2;
  return cell;
}

GroupEvidence Good() {
  GroupEvidence evidence;
  evidence.group = "int8";
  evidence.divergence = {Divergence(0.0002, 0.0001)};
  evidence.needles = {Needles(80, 0, 0)};
  evidence.free_run = FreeRunCell{16, 1, 1};
  return evidence;
}

TEST(Verdict, EverythingClearIsShip) {
  const Verdict verdict = Decide(Good(), {}, true);
  EXPECT_EQ(verdict.kind, VerdictKind::kShip);
  EXPECT_EQ(VerdictExitCode(verdict.kind), 0);
}

TEST(Verdict, AProvenLossVetoes) {
  GroupEvidence bad = Good();
  bad.divergence.push_back(Divergence(0.5, 0.1));
  EXPECT_EQ(Decide(bad, {}, true).kind, VerdictKind::kDoNotShip);
  EXPECT_EQ(Decide(bad, {}, true).deciding_cell, "divergence at 2K");
  bad = Good();
  bad.needles = {Needles(80, 20, 1)};
  EXPECT_EQ(Decide(bad, {}, true).kind, VerdictKind::kDoNotShip);
  EXPECT_EQ(Decide(bad, {}, true).deciding_cell, "needles at 2K");
  bad = Good();
  bad.divergence[0].non_finite = 1;
  EXPECT_EQ(Decide(bad, {}, true).kind, VerdictKind::kDoNotShip);
  EXPECT_EQ(VerdictExitCode(VerdictKind::kDoNotShip), 1);
}

TEST(Verdict, AVetoHoldsEvenIfTheControlPassed) {
  GroupEvidence bad = Good();
  bad.divergence = {Divergence(0.5, 0.1)};
  EXPECT_EQ(Decide(bad, {}, false).kind, VerdictKind::kDoNotShip);
}

TEST(Verdict, TooLittleDivergenceIsInconclusiveAndSaysWhatWouldDecide) {
  GroupEvidence small = Good();
  small.divergence = {Divergence(0.0002, 0.0001, 2)};
  const Verdict verdict = Decide(small, {}, true);
  EXPECT_EQ(verdict.kind, VerdictKind::kInconclusive);
  ASSERT_FALSE(verdict.would_decide.empty());
  EXPECT_NE(verdict.would_decide[0].find("at least 4 documents"), std::string::npos);
  EXPECT_EQ(VerdictExitCode(verdict.kind), 6);
}

TEST(Verdict, FewNeedlesOrADoubtMakeACanary) {
  GroupEvidence few = Good();
  few.needles = {Needles(10, 0, 0)};
  EXPECT_EQ(Decide(few, {}, true).kind, VerdictKind::kCanary);
  GroupEvidence doubt = Good();
  doubt.divergence = {Divergence(0.02, 0.001)};
  EXPECT_EQ(Decide(doubt, {}, true).kind, VerdictKind::kCanary);
  GroupEvidence repeating = Good();
  repeating.free_run = FreeRunCell{16, 9, 1};
  EXPECT_EQ(Decide(repeating, {}, true).kind, VerdictKind::kCanary);
  EXPECT_EQ(VerdictExitCode(VerdictKind::kCanary), 5);
}

TEST(Verdict, ARunWhoseControlPassedProvesNothing) {
  EXPECT_EQ(Decide(Good(), {}, false).kind, VerdictKind::kInconclusive);
  EXPECT_EQ(Decide(Good(), {}, std::nullopt).kind, VerdictKind::kCanary)
      << "no control: canary at best";
}

TEST(Verdict, ACellTheBaselineFailsDecidesNothing) {
  GroupEvidence floor = Good();
  floor.needles = {Needles(80, 30, 0)};
  floor.needles[0].baseline_right = 60;  // of 400
  floor.needles[0].candidate_right = 0;
  const Verdict verdict = Decide(floor, {}, true);
  EXPECT_EQ(verdict.kind, VerdictKind::kCanary) << "nothing shows that retrieval holds";
}

TEST(Verdict, TheControlMustBeSeenToFail) {
  GroupEvidence control;
  control.divergence = {Divergence(3.4, 1.0)};
  EXPECT_TRUE(ControlFailed(control, {}));
  control.divergence = {Divergence(0.01, 0.001)};
  EXPECT_FALSE(ControlFailed(control, {}));
  EXPECT_FALSE(ControlFailed({}, {}));
}

TEST(Verdict, RulesComeFromAFileAndGoBack) {
  VerdictRules rules;
  rules.good_kld = 0.01;
  rules.min_documents = 7;
  EXPECT_EQ(RulesToJson(RulesFromJson(RulesToJson(rules), "t")), RulesToJson(rules));
  EXPECT_THROW(RulesFromJson(Json::parse(R"({"good_klt": 1})"), "t"), Error);
  EXPECT_THROW(RulesFromJson(Json::parse(R"({"alpha": 2})"), "t"), Error);
  EXPECT_THROW(RulesFromJson(Json::parse(R"({"alpha": "x"})"), "t"), Error);
  EXPECT_THROW(RulesFromJson(Json::parse(R"([])"), "t"), Error);
  EXPECT_EQ(DescribeRules(rules).size(), 6U);
}

}  // namespace
}  // namespace kvant
