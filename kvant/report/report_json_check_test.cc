#include "kvant/report/report_json_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kvant/core/error.h"
#include "kvant/core/file.h"

namespace kvant {
namespace {

using testing::HasSubstr;

std::string ExampleText(const std::string& name) {
  return ReadWholeFile(std::string(KVANT_SOURCE_DIR) + "/fuzz/corpus/report_json/" + name + ".json",
                       1 << 20);
}

Json Full() { return ParseReport(ExampleText("full"), "full.json"); }

// The message of the refusal, or "".
std::string Refusal(const Json& report) {
  try {
    CheckReportJson(report);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.message();
  }
  return "";
}

TEST(ReportJsonCheck, AcceptsTheExamples) {
  EXPECT_EQ(Refusal(Full()), "");
  EXPECT_NO_THROW(ParseReport(ExampleText("minimal"), "minimal.json"));
}

TEST(ReportJsonCheck, AcceptsFieldsOfLaterVersions) {
  Json report = Full();
  report["later"] = {{"x", 1}};
  report["groups"][0]["later"] = true;
  EXPECT_EQ(Refusal(report), "");
}

TEST(ReportJsonCheck, EveryTopLevelFieldIsRequired) {
  const Json full = Full();
  for (const auto& entry : full.items()) {
    Json report = full;
    report.erase(entry.key());
    EXPECT_EQ(Refusal(report), "report: " + entry.key() + " is missing");
  }
}

TEST(ReportJsonCheck, NamesTheFieldOfAWrongType) {
  const auto refusal = [](const char* pointer, const Json& value) {
    Json report = Full();
    report[Json::json_pointer(pointer)] = value;
    return Refusal(report);
  };
  EXPECT_THAT(refusal("/groups/3/k/saturated", -1), HasSubstr("groups[3].k.saturated is not a"));
  EXPECT_THAT(refusal("/groups/3/k/saturated", nullptr), HasSubstr("groups[3].k.saturated"));
  EXPECT_THAT(refusal("/divergence/0/mean_kld", "0.1"), HasSubstr("divergence[0].mean_kld"));
  EXPECT_THAT(refusal("/divergence/0/mean_kld", std::numeric_limits<double>::infinity()),
              HasSubstr("not a finite number"));
  EXPECT_THAT(refusal("/divergence/1/by_position/0/from", 0.5), HasSubstr("by_position[0].from"));
  EXPECT_THAT(refusal("/config/buckets/1", "2K"), HasSubstr("config.buckets[1]"));
  EXPECT_THAT(refusal("/rules/0", 7), HasSubstr("rules[0] is not a text"));
  EXPECT_THAT(refusal("/complete", 1), HasSubstr("complete is neither true nor false"));
  EXPECT_THAT(refusal("/speed", Json::object()), HasSubstr("speed is not a list"));
  EXPECT_THAT(refusal("/memory", 1), HasSubstr("memory is not an object"));
  EXPECT_THAT(refusal("/schema", "kvant-report/2"), HasSubstr("is 'kvant-report/2'"));
  EXPECT_THAT(refusal("/groups/0/role", "king"), HasSubstr("groups[0].role is 'king'"));
  EXPECT_THAT(refusal("/verdicts/0/verdict", "maybe"), HasSubstr("verdicts[0].verdict is 'maybe'"));
  EXPECT_THAT(refusal("/needles/0/group", "nobody"), HasSubstr("needles[0].group names no group"));
  EXPECT_THAT(refusal("/groups/1/name", "bf16"), HasSubstr("groups[1].name stands twice"));
}

TEST(ReportJsonCheck, MeasurementsMayBeNull) {
  Json report = Full();
  report["divergence"][0]["mean_kld"] = nullptr;
  report["memory"]["used_bytes"] = nullptr;
  report["speed"][0]["tpot"][0]["low"] = nullptr;
  EXPECT_EQ(Refusal(report), "");
}

TEST(ReportJsonCheck, ParsingNamesTheSource) {
  for (const char* text : {"", "[]", "{", "null", "{\"schema\":1}"}) {
    try {
      ParseReport(text, "somewhere.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("somewhere.json")) << text;
    }
  }
}

}  // namespace
}  // namespace kvant
