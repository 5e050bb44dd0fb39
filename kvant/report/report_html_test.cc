#include "kvant/report/report_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "kvant/core/file.h"
#include "kvant/core/random.h"
#include "kvant/report/html_writer.h"
#include "kvant/report/page_style.h"

namespace kvant {
namespace {

using testing::HasSubstr;
using testing::Not;

Json Example(const std::string& name) {
  const std::string path =
      std::string(KVANT_SOURCE_DIR) + "/fuzz/corpus/report_json/" + name + ".json";
  return ParseJson(ReadWholeFile(path, 1 << 20), path);
}

// Calls `change` for every value inside `json`, leaves first.
void ForEachValue(Json* json, const std::function<void(Json*)>& change) {
  if (json->is_structured()) {
    for (Json& child : *json) ForEachValue(&child, change);
  }
  change(json);
}

// Every start tag is ended in order, void ones apart.
void ExpectWellFormed(const std::string& html) {
  static const std::regex tag("<(/?)([a-z0-9]+)([^<>]*)>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta") continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

void ExpectSelfContained(const std::string& html) {
  for (const char* reference :
       {"http", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe", "javascript"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
  EXPECT_FALSE(std::regex_search(html, std::regex("<[^>]* on[a-z]+="))) << "an event attribute";
}

TEST(ReportHtml, AFullReportShowsEverySectionInOrder) {
  const std::string html = RenderReportHtml(Example("full"));
  size_t at = 0;
  for (const char* heading :
       {"Verdict", "Groups side by side", "Memory", "Divergence from the baseline",
        "Retrieval by length and depth", "Free-running generation", "Speed",
        "Values beyond the format&#39;s range", "Did calibration make a difference?", "Controls",
        "What was not measured", "Rules of the verdict", "Environment and digests",
        "Make this report again"}) {
    const size_t found = html.find("<h2>" + std::string(heading), at);
    ASSERT_NE(found, std::string::npos) << heading;
    at = found;
  }
  for (const char* text :
       {"? int8: inconclusive", "✕ fp8_e4m3: do not ship", "◐ fp8_calibrated: canary",
        "Decided by: needles at 8K", "fp32 (noise floor)", "8K tokens: cannot discriminate",
        "kvant experiment --model smollm2-135m.gguf", "n\u00a020", "0.53 ×"}) {
    EXPECT_THAT(html, HasSubstr(text));
  }
  ExpectWellFormed(html);
  ExpectSelfContained(html);
}

TEST(ReportHtml, TheCandidateStandsFirst) {
  const std::string html = RenderReportHtml(Example("full"));
  EXPECT_LT(html.find("int8: inconclusive"), html.find("fp8_e4m3: do not ship"));
}

TEST(ReportHtml, IsAccessibleMarkup) {
  const std::string html = RenderReportHtml(Example("full"));
  EXPECT_THAT(html, HasSubstr("<html lang=\"en\">"));
  const auto count = [&](const char* pattern) {
    const std::regex regex(pattern);
    return std::distance(std::sregex_iterator(html.begin(), html.end(), regex),
                         std::sregex_iterator());
  };
  EXPECT_EQ(count("<table"), count("<caption>"));
  EXPECT_EQ(count("<th[ >]"), count("<th[^>]* scope=\"(row|col)\""));
  EXPECT_EQ(count("<figure>"), count("role=\"img\" aria-labelledby=\"c[0-9]+ c[0-9]+\""));
  EXPECT_EQ(count("<figure>"), 5) << "memory, KLD by position, layers, TPOT, TTFT";
  EXPECT_EQ(count("<svg "), count("<svg [^>]*(role=\"img\"|aria-hidden=\"true\")"));
  // Headings never skip a level.
  const std::regex heading("<h([1-6])");
  int level = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), heading), end; it != end; ++it) {
    const int next = std::stoi((*it)[1]);
    EXPECT_LE(next, level + 1);
    level = next;
  }
}

TEST(ReportHtml, AMinimalReportSaysWhatIsMissing) {
  const std::string html = RenderReportHtml(Example("minimal"));
  EXPECT_THAT(html, HasSubstr("This run is not complete"));
  EXPECT_THAT(html, HasSubstr("Not measured: no document was scored."));
  EXPECT_THAT(html, HasSubstr("Not measured: no haystack was asked."));
  EXPECT_THAT(html, HasSubstr("Negative control: not measured"));
  ExpectWellFormed(html);
  ExpectSelfContained(html);
}

TEST(ReportHtml, ARunThatCouldNotSeeDamageSaysSo) {
  Json report = Example("full");
  report["controls"]["negative"]["failed"] = false;
  EXPECT_THAT(RenderReportHtml(report), HasSubstr("could not have seen damage"));
}

TEST(ReportHtml, HostileTextsStayText) {
  const std::string attack = "\"'><script src=x onerror=alert(1)></style></svg><img src=x>&";
  Json report = Example("full");
  ForEachValue(&report, [&](Json* value) {
    if (value->is_string()) *value = attack + value->get<std::string>();
  });
  // Rows still belong to groups and figures are drawn: names are prefixed everywhere alike.
  const std::string html = RenderReportHtml(report);
  ExpectWellFormed(html);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;script src=x"));
  EXPECT_FALSE(std::regex_search(html, std::regex("<[^>]*=\"[^\"]*[<>']")));
}

TEST(ReportHtml, NullsEverywhereRender) {
  Json report = Example("full");
  ForEachValue(&report, [](Json* value) {
    if (value->is_primitive()) *value = nullptr;
  });
  ExpectWellFormed(RenderReportHtml(report));
  ExpectWellFormed(RenderReportHtml(nullptr));
  ExpectWellFormed(RenderReportHtml(Json::array({1, 2})));
}

TEST(ReportHtml, AnyOneFieldMayBeOfAnyType) {
  const std::vector<Json> others = {nullptr,
                                    "text",
                                    -1,
                                    1e308,
                                    Json::array({nullptr, 3}),
                                    Json::object(),
                                    true,
                                    std::numeric_limits<double>::quiet_NaN()};
  const Json full = Example("full");
  Random random(7);
  for (int trial = 0; trial < 40; ++trial) {
    Json report = full;
    ForEachValue(&report, [&](Json* value) {
      if (random.Below(50) == 0) *value = others[random.Below(others.size())];
    });
    ExpectWellFormed(RenderReportHtml(report));
  }
}

TEST(PageStyle, HoldsNothingThatHtmlWouldEscape) {
  EXPECT_EQ(EscapeHtml(PageStyle()), PageStyle());
}

}  // namespace
}  // namespace kvant
