#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "kvant/core/error.h"
#include "kvant/report/report_html.h"
#include "kvant/report/report_json.h"

namespace kvant {
namespace {

// A stored run of two groups and a control, with the divergence that each is given.
class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("report." + std::to_string(::getpid()) + ".db");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static Json Config(const std::string& name) {
    return {{"preset", "quick"},
            {"seed", 1},
            {"buckets", {512}},
            {"command", "kvant <b>"},
            {"tasks", {"divergence", "needles", "free_run", "speed"}},
            {"layer_sensitivity", ""},
            {"calibration_sha256", "c"},
            {"evaluation_sha256", "e"},
            {"evaluation_tokens", 1000},
            {"model", {{"name", name}, {"sha256", "m"}}}};
  }

  static StoredSample Group(const std::string& name, const std::string& role,
                            const std::string& source) {
    StoredSample s;
    s.key = "group/" + name;
    s.kind = "group";
    s.group = name;
    s.payload = {{"name", name},
                 {"plan", name},
                 {"role", role},
                 {"digest", "d"},
                 {"description", name},
                 {"scale_source", source},
                 {"bytes_per_token_formula", 100.0},
                 {"bits_per_value", 8.5},
                 {"sequences_that_fit", {{"tokens", 512}, {"count", 7}}}};
    return s;
  }

  static StoredSample Document(const std::string& group, int number, float kld) {
    StoredSample s;
    s.key = "divergence/" + group + "/512/" + std::to_string(number);
    s.kind = "divergence";
    s.group = group;
    s.bucket = 512;
    s.payload = {{"document", number},
                 {"tokens", 512},
                 {"held_bytes", 51200},
                 {"counts", {{"k", {{512, 3, 0, 1}}}, {"v", {{512, 0, 0, 0}}}}}};
    for (int i = 0; i < 512; ++i) {
      const float row[4] = {kld * (1 + 0.1F * static_cast<float>(number % 3)), -1, -1, 1};
      const auto* raw = reinterpret_cast<const uint8_t*>(row);
      s.values.insert(s.values.end(), raw, raw + sizeof(row));
    }
    return s;
  }

  // 100 bytes for each token at 512, and not at 128.
  static StoredSample Held(const std::string& group, uint64_t bucket) {
    StoredSample s;
    s.key = "held/" + group + "/" + std::to_string(bucket);
    s.kind = "held";
    s.group = group;
    s.bucket = bucket;
    s.payload = {{"tokens", bucket},
                 {"held_bytes", 51200},
                 {"counts", {{"k", {{bucket, 0, 0, 0}}}, {"v", {{bucket, 0, 0, 0}}}}}};
    return s;
  }

  static StoredSample Needle(const std::string& group, int haystack, bool right) {
    StoredSample s;
    s.key = "needle/" + group + "/" + std::to_string(haystack);
    s.kind = "needle";
    s.group = group;
    s.bucket = 512;
    s.payload = {{"haystack", haystack}, {"depth", 0.5}, {"right", right}};
    return s;
  }

  Json Build(const std::string& model_name = "tiny") {
    Store store(path_);
    const int64_t run = store.StartRun("r", Config(model_name), {{"cpu", "x"}});
    store.Put(run, Group("bf16", "baseline", "none"));
    store.Put(run, Group("fp8", "group", "unit"));
    store.Put(run, Group("fp8cal", "group", "static (calibrated)"));
    store.Put(run, Group("int8", "candidate", "dynamic"));
    store.Put(run, Group("int2", "negative_control", "dynamic"));
    for (const uint64_t bucket : {512U, 128U}) store.Put(run, Held("bf16", bucket));
    for (int i = 0; i < 10; ++i) {
      store.Put(run, Document("fp8", i, 0.02F));
      store.Put(run, Document("fp8cal", i, 0.002F));
      store.Put(run, Document("int8", i, 0.0001F));
      store.Put(run, Document("int2", i, 3.0F));
    }
    for (int i = 0; i < 80; ++i) {
      for (const char* group : {"bf16", "int8", "fp8"}) store.Put(run, Needle(group, i, true));
      store.Put(run, Needle("fp8cal", i, i % 4 != 0));
    }
    store.FinishRun(run);
    return BuildReport(store, run, {});
  }

  std::filesystem::path path_;
};

TEST_F(ReportTest, VerdictsFollowTheSamples) {
  const Json report = Build();
  EXPECT_EQ(VerdictOf(report, "int8"), VerdictKind::kShip) << report["verdicts"].dump(1);
  EXPECT_EQ(VerdictOf(report, "fp8"), VerdictKind::kCanary);
  EXPECT_EQ(VerdictOf(report, "fp8cal"), VerdictKind::kDoNotShip) << "it lost 20 haystacks";
  EXPECT_EQ(VerdictOf(report, "nobody"), VerdictKind::kInconclusive);
  EXPECT_EQ(report["controls"]["negative"]["failed"], true);
  EXPECT_EQ(report["calibration_effect"]["verdict"], "better");
}

TEST_F(ReportTest, NumbersAreThoseOfTheSamples) {
  const Json report = Build();
  for (const Json& row : report["divergence"]) {
    if (row["group"] != "int8") continue;
    EXPECT_EQ(row["positions"], 2560);
    EXPECT_NEAR(row["mean_kld"].get<double>(), 0.0001 * 1.09, 1e-6);
    EXPECT_EQ(row["same_top1"], 1.0);
    EXPECT_TRUE(row["p999"].is_null());
  }
  for (const Json& group : report["groups"]) {
    if (group["name"] == "bf16") {
      EXPECT_EQ(group["bytes_per_token_measured"], 100.0);
      EXPECT_EQ(group["measured_at_tokens"], 512);
      EXPECT_EQ(group["k"]["values"], 640);
    }
    if (group["name"] != "int8") continue;
    EXPECT_EQ(group["bytes_per_token_measured"], 100.0);
    EXPECT_EQ(group["k"]["saturated"], 30);
    EXPECT_EQ(group["layers"][0]["k_non_finite"], 10);
  }
}

TEST_F(ReportTest, ThePageIsSelfContainedAndEscapesWhatComesFromOutside) {
  const std::string html = RenderReportHtml(Build("<script>alert('x')</script>&\""));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(html.find("kvant &lt;b&gt;"), std::string::npos);
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import"}) {
    EXPECT_EQ(html.find(reference), std::string::npos) << reference;
  }
  for (const char* part : {"<html lang=", "viewport", "prefers-color-scheme", "@media print",
                           "aria-label", "scope=\"col\"", "<caption>", "int8: ship"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
}

TEST_F(ReportTest, ARunWithNothingMeasuredStillRenders) {
  Store store(path_);
  const int64_t run = store.StartRun("r", Config("m"), {{"cpu", "x"}});
  store.Put(run, Group("bf16", "baseline", "none"));
  store.Put(run, Group("int8", "candidate", "dynamic"));
  const Json report = BuildReport(store, run, {});
  EXPECT_EQ(VerdictOf(report, "int8"), VerdictKind::kInconclusive);
  EXPECT_NE(RenderReportHtml(report).find("not complete"), std::string::npos);
}

TEST_F(ReportTest, ADamagedSampleIsNamed) {
  Store store(path_);
  const int64_t run = store.StartRun("r", Config("m"), {});
  store.Put(run, Group("bf16", "baseline", "none"));
  store.Put(run, Group("int8", "candidate", "dynamic"));
  StoredSample damaged = Document("int8", 0, 1);
  damaged.values.pop_back();
  store.Put(run, damaged);
  EXPECT_THROW(BuildReport(store, run, {}), Error);
}

}  // namespace
}  // namespace kvant
