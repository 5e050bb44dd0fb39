#include "kvant/report/html_writer.h"

#include <gtest/gtest.h>

#include <utility>

namespace kvant {
namespace {

TEST(EscapeHtml, EscapesEverythingThatCouldBreakOut) {
  EXPECT_EQ(EscapeHtml("<a href='x' title=\"y\">&</a>"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;&lt;/a&gt;");
}

TEST(EscapeHtml, KeepsTextOfAllScripts) {
  const std::string text = "Grüße, 日本語, \xF0\x9F\x98\x80\n\tx";
  EXPECT_EQ(EscapeHtml(text), text);
}

TEST(EscapeHtml, ReplacesWhatIsNotUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeHtml("a\xFF"
                       "b"),
            "a" + bad + "b");
  EXPECT_EQ(EscapeHtml("\xC0\xBC"), bad + bad) << "overlong '<'";
  EXPECT_EQ(EscapeHtml("\xE2\x82"), bad + bad) << "cut off";
  EXPECT_EQ(EscapeHtml("\xED\xA0\x80"), bad + bad + bad) << "surrogate";
  EXPECT_EQ(EscapeHtml("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "beyond U+10FFFF";
}

TEST(EscapeHtml, ReplacesControlsAndWhatReordersText) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(EscapeHtml(std::string_view("a\0b\x1B", 4)), "a" + bad + "b" + bad);
  EXPECT_EQ(EscapeHtml("a\u202Etxt.exe\u2069"), "a" + bad + "txt.exe" + bad);
  EXPECT_EQ(EscapeHtml("\u0085"), bad);
}

TEST(Shortened, CutsBetweenCodePoints) {
  EXPECT_EQ(Shortened("Grüße", 5), "Grüße");
  EXPECT_EQ(Shortened("Grüße", 4), "Grü…");
  EXPECT_EQ(Shortened("", 3), "");
}

TEST(HtmlWriter, ClosesInOrderAndEscapesAttributes) {
  HtmlWriter page;
  page.Open("p", {{"title", "a\"b"}});
  page.Text("1 < 2");
  page.Element("b", "&");
  page.Close();
  EXPECT_EQ(std::move(page).Finish(),
            "<!DOCTYPE html>\n<p title=\"a&quot;b\">1 &lt; 2<b>&amp;</b>\n</p>\n");
}

TEST(HtmlWriter, IdsAreNew) {
  HtmlWriter page;
  EXPECT_NE(page.NewId(), page.NewId());
}

}  // namespace
}  // namespace kvant
