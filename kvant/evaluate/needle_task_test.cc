#include "kvant/evaluate/needle_task.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kvant/core/error.h"

namespace kvant {
namespace {

// Words and punctuation marks stand for tokens.
uint64_t CountWords(std::string_view text) {
  uint64_t count = 0;
  bool inside = false;
  for (const char c : text) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    count += (letter && !inside) || (!letter && c != ' ' && c != '\n') ? 1 : 0;
    inside = letter;
  }
  return count;
}

TEST(NeedleTask, FillsItsBucketToTheSentence) {
  for (const uint64_t tokens : {300U, 1024U, 5000U}) {
    NeedleOptions options;
    options.tokens = tokens;
    options.seed = tokens;
    const Haystack haystack = MakeHaystack(options, CountWords);
    for (const Needle& needle : haystack.needles) {
      const uint64_t used = CountWords(haystack.text + QuestionFor(needle));
      EXPECT_LE(used + options.answer_tokens, tokens);
      EXPECT_GE(used + options.answer_tokens + 40, tokens);
    }
  }
}

TEST(NeedleTask, NeedlesLieAtTheirDepths) {
  NeedleOptions options;
  options.tokens = 3000;
  const Haystack haystack = MakeHaystack(options, CountWords);
  std::set<std::string> keys;
  for (const Needle& needle : haystack.needles) {
    keys.insert(needle.key);
    const size_t at = haystack.text.find(needle.value);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(haystack.text.find(needle.value, at + 1), std::string::npos);
    EXPECT_NEAR(static_cast<double>(at) / static_cast<double>(haystack.text.size()), needle.depth,
                0.05);
  }
  EXPECT_EQ(keys.size(), haystack.needles.size());
}

TEST(NeedleTask, SeedsGiveDifferentTextFromTheFirstSentence) {
  NeedleOptions a;
  NeedleOptions b;
  b.seed = 1;
  const std::string first = MakeHaystack(a, CountWords).text;
  const std::string second = MakeHaystack(b, CountWords).text;
  EXPECT_NE(first.substr(60, 100), second.substr(60, 100));
  EXPECT_EQ(first, MakeHaystack(a, CountWords).text);
}

TEST(NeedleTask, ABucketThatIsTooSmallIsRefused) {
  NeedleOptions options;
  options.tokens = 40;
  EXPECT_THROW(MakeHaystack(options, CountWords), Error);
  options.tokens = 2000;
  options.depths.clear();
  EXPECT_THROW(MakeHaystack(options, CountWords), Error);
}

TEST(NeedleTask, TheGraderWantsTheExactNumber) {
  const Needle needle = {"amber mill", "12345", 0.5};
  EXPECT_TRUE(AnswersNeedle(" 12345.", needle));
  EXPECT_TRUE(AnswersNeedle(" the number 12,345", needle));
  EXPECT_FALSE(AnswersNeedle(" 123456", needle));
  EXPECT_FALSE(AnswersNeedle(" 1234", needle));
  EXPECT_FALSE(AnswersNeedle(" 54321 or 12345", needle));
  EXPECT_FALSE(AnswersNeedle("", needle));
}

}  // namespace
}  // namespace kvant
