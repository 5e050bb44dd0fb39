#include "kvant/model/tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvant/core/random.h"
#include "kvant/model/tokenizer/small_vocabulary.h"
#include "kvant/model/tokenizer/utf8.h"

namespace kvant {
namespace {

const std::string kMark = "\xEF\xBF\xBD";

std::string Cut(const std::string& bytes, size_t step) {
  Utf8Assembler assembler;
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += step) {
    text += assembler.Append(std::string_view(bytes).substr(at, step));
  }
  return text + assembler.Flush();
}

TEST(Utf8Assembler, MarksEachMaximalIllFormedPartOnce) {
  // The example of the Unicode standard, section 3.9, table 3-8 to 3-11, and CPython's answers.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
       kMark + kMark + kMark + kMark + kMark + kMark + kMark + kMark + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
       kMark + kMark + kMark + kMark + kMark + kMark + kMark + kMark + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
       kMark + kMark + kMark + kMark + kMark + "A" + kMark + kMark + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", kMark + kMark + kMark + kMark + "A"},
      {"\xF0\x9F\x98", kMark},
      {"", ""}};
  for (const auto& [bytes, expected] : cases) {
    for (size_t step = 1; step <= 10; ++step) EXPECT_EQ(Cut(bytes, step), expected);
  }
}

TEST(Utf8Assembler, HoldsBackOnlyWhatMayStillBecomeACharacter) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.Append("a\xF0"), "a");
  EXPECT_EQ(assembler.Append("\x9F"), "");
  EXPECT_EQ(assembler.Append("\x98"), "");
  EXPECT_EQ(assembler.Append("\x80"
                             "b\xE2\x82"),
            "\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(assembler.Append("c"), kMark + "c");
  EXPECT_EQ(assembler.Append("\xF0\x8F"), kMark + kMark);  // no character begins so
  EXPECT_EQ(assembler.Append("\xE2"), "");
  EXPECT_EQ(assembler.Flush(), kMark);
  EXPECT_EQ(assembler.Flush(), "");
}

TEST(Utf8Assembler, CutsChangeNothing) {
  Random random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    for (uint64_t n = random.Below(12); n > 0; --n) {
      bytes.push_back("aA\x80\x9F\xA0\xBF\xC2\xE0\xED\xEF\xF0\xF4"[random.Below(12)]);
    }
    const std::string whole = Cut(bytes, 100);
    for (size_t step = 1; step < 5; ++step) ASSERT_EQ(Cut(bytes, step), whole);
    for (size_t at = 0; at < whole.size();) {
      const Utf8Character character = DecodeUtf8(whole, at);
      ASSERT_EQ(character.form, Utf8Form::kValid);
      at += character.bytes;
    }
  }
}

TEST(StreamingDetokenizer, JoinsByteTokensAndHidesControlTokens) {
  const auto tokenizer = MakeTokenizer(SmallSentencePiece());
  const TokenId start = *tokenizer->Find("<s>");
  std::vector<TokenId> ids = tokenizer->Encode("a\xC3\xA9");
  ids.insert(ids.begin() + 2, start);
  StreamingDetokenizer detokenizer(*tokenizer);
  std::vector<std::string> parts;
  for (const TokenId id : ids) parts.push_back(detokenizer.Append(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "\xC3\xA9"}));
  StreamingDetokenizer shown(*tokenizer, true);
  EXPECT_EQ(shown.Append(start), "<s>");
  EXPECT_EQ(shown.Append(-5) + shown.Flush(), "");
}

}  // namespace
}  // namespace kvant
