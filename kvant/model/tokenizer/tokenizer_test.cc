#include "kvant/model/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/random.h"
#include "kvant/model/gguf/gguf_builder.h"
#include "kvant/model/tokenizer/pre_tokenizer.h"
#include "kvant/model/tokenizer/small_vocabulary.h"
#include "kvant/model/tokenizer/token_matcher.h"

namespace kvant {
namespace {

std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text,
                                const EncodeOptions& options = {}) {
  std::vector<std::string> pieces;
  for (const TokenId id : tokenizer.Encode(text, options)) {
    pieces.push_back(tokenizer.Piece(id, true));
  }
  return pieces;
}

std::vector<std::string> Words(PreTokenizer pre, std::string_view text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = WordEnd(pre, text, begin);
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

using Strings = std::vector<std::string>;

TEST(PreTokenizer, CutsAsItsRegularExpressionSays) {
  const std::string text = "It's  I'LL 12345 \xC2\xBD\t x\n\n !?\r\ny  ";
  EXPECT_EQ(Words(PreTokenizer::kGpt2, text),
            (Strings{"It", "'s", " ", " I", "'", "LL", " 12345", " \xC2\xBD", "\t", " x", "\n\n",
                     " !?", "\r", "\n", "y", "  "}));
  EXPECT_EQ(Words(PreTokenizer::kSmollm, text),
            (Strings{"It", "'s", " ",        " I", "'",  "LL",   " ",   "1",  "2",  "3", "4",
                     "5",  " ",  "\xC2\xBD", "\t", " x", "\n\n", " !?", "\r", "\n", "y", "  "}));
  EXPECT_EQ(Words(PreTokenizer::kQwen2, text),
            (Strings{"It", "'s", " ", " I", "'LL", " ", "1", "2", "3", "4", "5", " ", "\xC2\xBD",
                     "\t", " x", "\n\n", " !?\r\n", "y", "  "}));
  EXPECT_EQ(Words(PreTokenizer::kLlamaBpe, text),
            (Strings{"It", "'s", " ", " I", "'LL", " ", "123", "45", " ", "\xC2\xBD", "\t", " x",
                     "\n\n", " !?\r\n", "y", "  "}));
}

TEST(PreTokenizer, TakesBrokenBytesForSymbols) {
  const std::string text = "a\xFF\xC3 b\xE2\x82";
  for (const PreTokenizer pre :
       {PreTokenizer::kGpt2, PreTokenizer::kSmollm, PreTokenizer::kQwen2}) {
    EXPECT_EQ(Words(pre, text), (Strings{"a", "\xFF\xC3", " b", "\xE2\x82"}));
  }
}

TEST(PreTokenizer, RefusesUnknownNames) {
  EXPECT_EQ(PreTokenizerFromName(""), PreTokenizer::kGpt2);
  try {
    PreTokenizerFromName("tekken");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.hint().find("smollm, qwen2, llama-bpe"), std::string::npos);
  }
}

TEST(TokenMatcher, FindsTheLongestTokenAtTheLeftmostPlace) {
  const TokenMatcher matcher({{"<a", 1}, {"<a>", 2}, {"<a>b", 3}, {"a>bc", 4}, {"<a", 9}});
  std::vector<std::string> seen;
  matcher.Split(
      "x<a><a>b<a<a>bc", [&](std::string_view part) { seen.emplace_back(part); },
      [&](TokenId token) { seen.push_back(std::to_string(token)); });
  EXPECT_EQ(seen, (Strings{"x", "2", "3", "1", "3", "c"}));
  EXPECT_FALSE(TokenMatcher({}).At("a", 0));
}

// Byte-level BPE as Sennrich et al. describe it: again and again the best pair of the whole word.
std::vector<std::string> SlowMerges(const TokenizerData& data, std::string_view word) {
  std::map<std::string, size_t> ranks;
  for (size_t i = 0; i < data.merges.size(); ++i) ranks[data.merges[i]] = i;
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  for (;;) {
    size_t best = data.merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == data.merges.size()) return symbols;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BytePairTokenizer, MergesAsTheSlowAlgorithmDoes) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const TokenizerData data = RandomMerges(&random, 2 + random.Below(3), random.Below(25));
    const auto tokenizer = MakeTokenizer(data);
    for (int i = 0; i < 20; ++i) {
      std::string word;
      for (uint64_t n = 1 + random.Below(30); n > 0; --n) {
        word.push_back(static_cast<char>('a' + random.Below(4)));
      }
      ASSERT_EQ(Pieces(*tokenizer, word), SlowMerges(data, word)) << word;
    }
  }
}

TEST(BytePairTokenizer, AMegabyteInOneWordTakesAMoment) {
  const auto tokenizer = MakeTokenizer(SmallBytePair());
  const std::string word(1'000'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(word)), word);
  // Quadratic merging would take hours; the bound leaves room for sanitizers and a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(BytePairTokenizer, AnyBytesComeBack) {
  const auto tokenizer = MakeTokenizer(SmallBytePair());
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(all)), all);
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(BytePairTokenizer, DropsBytesThatItsVocabularyLacks) {
  TokenizerData data;
  data.model = "gpt2";
  data.tokens = {"a", "b", "ab"};
  data.merges = {"a b"};
  EXPECT_EQ(Pieces(*MakeTokenizer(data), "axb"), (Strings{"ab"}));
}

TEST(BytePairTokenizer, ComposesForQwen2Only) {
  TokenizerData data = SmallBytePair();
  const std::string decomposed =
      "e\xCC\x81\xFF"
      "e\xCC\x81";
  EXPECT_EQ(MakeTokenizer(data)->Decode(MakeTokenizer(data)->Encode(decomposed)), decomposed);
  data.pre = "qwen2";
  EXPECT_EQ(MakeTokenizer(data)->Decode(MakeTokenizer(data)->Encode(decomposed)),
            "\xC3\xA9\xFF\xC3\xA9");
}

TEST(BytePairTokenizer, TakesWholeWordsFirstForLlama) {
  TokenizerData data = SmallBytePair();
  AddToken(&data, "zq", TokenType::kNormal);  // no merge makes it
  EXPECT_EQ(Pieces(*MakeTokenizer(data), "zq"), (Strings{"z", "q"}));
  data.pre = "llama-bpe";
  EXPECT_EQ(Pieces(*MakeTokenizer(data), "zq"), (Strings{"zq"}));
}

TEST(Tokenizer, RecognisesSpecialTokensOnlyWhereAllowed) {
  const auto tokenizer = MakeTokenizer(SmallBytePair());
  const TokenId end = *tokenizer->Find("<|end|>");
  const TokenId call = *tokenizer->Find("<call>");
  const std::string text = "a<|end|><call>";
  const auto plain = tokenizer->Encode(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), call), 0);
  EXPECT_EQ(tokenizer->Decode(plain), text);
  const auto special = tokenizer->Encode(text, {.parse_special = true});
  EXPECT_EQ(special, (std::vector<TokenId>{*tokenizer->Find("a"), end, call}));
  EXPECT_EQ(tokenizer->Decode(special), "a<call>");
  EXPECT_EQ(tokenizer->Decode(special, true), text);
}

TEST(Tokenizer, KnowsRolesAndIdsOutsideTheVocabulary) {
  TokenizerData data = SmallBytePair();
  data.add_bos = true;
  data.add_eos = true;
  data.bos = 3;
  data.eos = 4;
  const auto tokenizer = MakeTokenizer(data);
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->Encode("", {.add_special = true}), (std::vector<TokenId>{3, 4}));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(4));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*tokenizer->Find("<|end|>")));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(3));
  for (const TokenId id :
       {-1, static_cast<TokenId>(tokenizer->vocabulary()), std::numeric_limits<TokenId>::min(),
        std::numeric_limits<TokenId>::max()}) {
    EXPECT_EQ(tokenizer->Piece(id, true), "");
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_FALSE(tokenizer->IsEndOfGeneration(id));
  }
  EXPECT_FALSE(tokenizer->Find("not there"));
}

TEST(SentencePieceTokenizer, MergesByScoreAndOfEqualsTheLeftmost) {
  TokenizerData data = SmallSentencePiece();
  const auto tokenizer = MakeTokenizer(data);
  EXPECT_EQ(Pieces(*tokenizer, "abc"), (Strings{"a", "bc"}));  // "bc" scores higher than "ab"
  EXPECT_EQ(Pieces(*tokenizer, "aaa"), (Strings{"aa", "a"}));
  EXPECT_EQ(Pieces(*tokenizer, "ab ab"), (Strings{"ab", " ab"}));
}

TEST(SentencePieceTokenizer, FallsBackToBytes) {
  const auto tokenizer = MakeTokenizer(SmallSentencePiece());
  const std::string text = "a\xC3\xA9\xFFz";
  EXPECT_EQ(Pieces(*tokenizer, text), (Strings{"a", "\xC3", "\xA9", "\xFF", "z"}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
}

TEST(SentencePieceTokenizer, WithoutByteTokensARunOfUnknownCharactersIsOneToken) {
  TokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "a"};
  data.types = {TokenType::kUnknown, TokenType::kNormal};
  data.scores = {0, -1};
  EXPECT_THROW(MakeTokenizer(data)->Encode("b"), Error);
  data.unknown = 0;
  EXPECT_EQ(MakeTokenizer(data)->Encode("abca"), (std::vector<TokenId>{1, 0, 1}));
}

TEST(SentencePieceTokenizer, TextNeverBecomesControlOrByteTokens) {
  const auto tokenizer = MakeTokenizer(SmallSentencePiece());
  for (const TokenId id : tokenizer->Encode("<s><0x41><|end|>")) {
    EXPECT_FALSE(tokenizer->IsSpecial(id));
    EXPECT_NE(tokenizer->Piece(id, true), "A");
  }
  EXPECT_EQ(tokenizer->Encode("<s>", {.parse_special = true}).size(), 1U);
}

TEST(SentencePieceTokenizer, UserDefinedPiecesAreOneTokenEverywhere) {
  const auto tokenizer = MakeTokenizer(SmallSentencePiece());
  EXPECT_EQ(Pieces(*tokenizer, "a\n\n\nb"), (Strings{"a", "\n\n", "\n", "b"}));
  // "b<td>" is not "b<" and "td>".
  EXPECT_EQ(Pieces(*tokenizer, "b<td>c"), (Strings{"b", "<td>", "c"}));
}

TEST(SentencePieceTokenizer, PutsASpaceBeforeTextAndAfterControlTokens) {
  TokenizerData data = SmallSentencePiece();
  data.add_space_prefix = true;
  const auto tokenizer = MakeTokenizer(data);
  EXPECT_EQ(Pieces(*tokenizer, "ab<s>ab", {.parse_special = true}), (Strings{" ab", "<s>", " ab"}));
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(SentencePieceTokenizer, CuttingAtSpacesChangesNothing) {
  // The same merges, once where no piece has a letter before a space and text is cut there, once
  // with such a piece that never occurs, so that it is not cut.
  Random random(3);
  const TokenizerData cut = SmallSentencePiece();
  TokenizerData whole = cut;
  for (const char c : std::string("abc")) {
    whole.tokens.push_back(std::string(1, c) + " \x01");
    whole.types.push_back(TokenType::kNormal);
    whole.scores.push_back(-1000);
  }
  const auto a = MakeTokenizer(cut);
  const auto b = MakeTokenizer(whole);
  for (int i = 0; i < 500; ++i) {
    std::string text;
    for (uint64_t n = random.Below(40); n > 0; --n) text.push_back("abc  \n<td>"[random.Below(10)]);
    ASSERT_EQ(a->Encode(text), b->Encode(text)) << text;
  }
}

// --- What a file may not say. ---

void ExpectRefused(const TokenizerData& data, std::string_view why) {
  try {
    MakeTokenizer(data);
    ADD_FAILURE() << "accepted, not refused with: " << why;
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(HostileVocabulary, IsRefusedForWhatBothModelsShare) {
  for (const TokenizerData& good : {SmallBytePair(), SmallSentencePiece()}) {
    TokenizerData data = good;
    data.tokens.clear();
    ExpectRefused(data, "a vocabulary of 0 tokens");
    data = good;
    data.tokens[9] = data.tokens[5];
    ExpectRefused(data, "tokens 5 and 9 are the same");
    data = good;
    data.tokens[9] = "";
    ExpectRefused(data, "token 9 has 0 bytes");
    data = good;
    data.tokens[9] = std::string(kMaxTokenBytes + 1, 'x');
    ExpectRefused(data, "token 9 has 4097 bytes");
    data = good;
    data.types.pop_back();
    ExpectRefused(data, "token types for");
    data = good;
    data.scores.assign(3, 0.0F);
    ExpectRefused(data, "3 scores for");
    data = good;
    data.model = "wordpiece";
    ExpectRefused(data, "wordpiece");
  }
}

TEST(HostileVocabulary, IsRefusedForIdsOutsideIt) {
  const auto size = static_cast<TokenId>(SmallBytePair().tokens.size());
  for (const TokenId id : {size, TokenId{-1}, std::numeric_limits<TokenId>::max()}) {
    for (const auto member : {&TokenizerData::bos, &TokenizerData::eos, &TokenizerData::eot,
                              &TokenizerData::eom, &TokenizerData::unknown}) {
      TokenizerData data = SmallBytePair();
      data.*member = id;
      ExpectRefused(data, "outside the vocabulary");
    }
  }
}

TEST(HostileVocabulary, IsRefusedForImpossibleMerges) {
  for (const char* merge : {"a", "", " a", "a ", "a nothing", "nothing a", "z z", "a  b"}) {
    TokenizerData data = SmallBytePair();
    data.merges.emplace_back(merge);
    ExpectRefused(data, "merge ");
  }
  TokenizerData data = SmallBytePair();
  data.pre = "nothing";
  ExpectRefused(data, "pre-tokenizer 'nothing'");
}

TEST(HostileVocabulary, IsRefusedForImpossibleByteTokens) {
  const TokenizerData good = SmallSentencePiece();
  const auto byte_a = static_cast<size_t>(
      std::find(good.tokens.begin(), good.tokens.end(), "<0x41>") - good.tokens.begin());
  for (const char* text :
       {"<0x-1>", "<0x100>", "<0xG0>", "<0x4>", "0x41", "<0x+1>", "<0x 1>", "<0X41>"}) {
    TokenizerData data = good;
    data.tokens[byte_a] = text;
    ExpectRefused(data, "byte token");
  }
  TokenizerData data = good;
  data.tokens[byte_a] = "<0x4a>";
  ExpectRefused(data, "a byte with two tokens");
  data = good;
  data.types[byte_a] = TokenType::kNormal;
  ExpectRefused(data, "255 byte tokens");
  data = SmallBytePair();
  data.types[5] = TokenType::kByte;
  ExpectRefused(data, "byte token");
}

TEST(HostileVocabulary, IsRefusedForScoresThatAreNotNumbers) {
  for (const float score : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    TokenizerData data = SmallSentencePiece();
    data.scores[7] = score;
    ExpectRefused(data, "token 7 has no finite score");
  }
  TokenizerData data = SmallSentencePiece();
  data.scores.clear();
  ExpectRefused(data, "without scores");
}

TEST(ReadTokenizerData, TakesWhatTheFileSaysAndRefusesWrongIds) {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2");
  builder.String("tokenizer.ggml.pre", "llama-bpe");
  builder.Strings("tokenizer.ggml.tokens", {"a", "<s>"});
  builder.Int32s("tokenizer.ggml.token_type", {1, 3});
  GgufBuilder good = builder;
  good.Uint32("tokenizer.ggml.bos_token_id", 1);
  const TokenizerData data = ReadTokenizerData(GgufFile::FromBytes(good.Build(), "test"));
  EXPECT_EQ(data.tokens, (Strings{"a", "<s>"}));
  EXPECT_EQ(data.types, (std::vector<TokenType>{TokenType::kNormal, TokenType::kControl}));
  EXPECT_EQ(data.bos, 1);
  EXPECT_FALSE(data.eos);
  EXPECT_TRUE(data.add_bos);
  builder.Uint32("tokenizer.ggml.bos_token_id", 2);
  EXPECT_THROW(ReadTokenizerData(GgufFile::FromBytes(builder.Build(), "test")), Error);
}

}  // namespace
}  // namespace kvant
