// Our tokenizers against the references of make_golden.py, line by line.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvant/core/json.h"
#include "kvant/core/random.h"
#include "kvant/core/sha256.h"
#include "kvant/model/gguf/gguf_file.h"
#include "kvant/model/tokenizer/detokenizer.h"
#include "kvant/model/tokenizer/tokenizer.h"

namespace kvant {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(KVANT_SOURCE_DIR) / "tests/tokenizer";

std::unique_ptr<Tokenizer> Load(const std::string& model, const std::string& pre) {
  const char* folder = std::getenv("KVANT_MODELS");
  const std::filesystem::path models =
      folder != nullptr ? folder : std::filesystem::path(KVANT_SOURCE_DIR) / "models";
  TokenizerData data = ReadTokenizerData(GgufFile::Open(models / (model + ".gguf")));
  if (!pre.empty()) data.pre = pre;
  return MakeTokenizer(data);
}

const std::vector<std::string>& Lines() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    std::ifstream file(kFolder / "lines.jsonl");
    for (std::string line; std::getline(file, line);) {
      all.push_back(ParseJson(line, "lines.jsonl").get<std::string>());
    }
    return all;
  }();
  return lines;
}

std::string DigestOf(const std::vector<TokenId>& ids) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(ids.data());
  return Hex(Sha256Of(std::span(bytes, ids.size() * sizeof(TokenId)))).substr(0, 8);
}

void ExpectGolden(const std::string& name, const Tokenizer& tokenizer) {
  ASSERT_GE(Lines().size(), 10'000U);
  std::ifstream golden(kFolder / "golden" / (name + ".txt"));
  size_t differ = 0;
  for (const std::string& line : Lines()) {
    std::string plain, special;
    ASSERT_TRUE(golden >> plain >> special);
    for (const bool parse_special : {false, true}) {
      const auto ids = tokenizer.Encode(line, {.parse_special = parse_special});
      if (DigestOf(ids) == (parse_special ? special : plain)) continue;
      if (++differ > 20) continue;
      ADD_FAILURE() << name << (parse_special ? ", special tokens recognised: " : ": ")
                    << Json(line).dump() << "\n  ours: " << testing::PrintToString(ids)
                    << "\n  theirs: make_golden.py MODELS --show " << name;
    }
  }
  EXPECT_EQ(differ, 0U) << "of " << 2 * Lines().size();
}

// Bytes that no decoder accepts, among text.
std::string RandomBytes(Random* random) {
  std::string bytes;
  for (uint64_t i = 1 + random->Below(40); i > 0; --i) {
    bytes.push_back(static_cast<char>(
        random->Below(2) == 0 ? random->Below(256) : " aé\xF0\x9F\x98\x80\n1'"[random->Below(11)]));
  }
  return bytes;
}

void ExpectBytesComeBack(const Tokenizer& tokenizer) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = RandomBytes(&random);
    if (bytes.find("\xE2\x96\x81") != std::string::npos) continue;  // a space to SentencePiece
    const std::vector<TokenId> ids = tokenizer.Encode(bytes);
    ASSERT_EQ(tokenizer.Decode(ids), bytes) << testing::PrintToString(ids);
  }
}

// The stream, cut at every token, gives the text.
void ExpectStreamsWhole(const Tokenizer& tokenizer) {
  for (size_t i = 0; i < Lines().size(); i += 7) {
    StreamingDetokenizer detokenizer(tokenizer);
    const std::vector<TokenId> ids = tokenizer.Encode(Lines()[i]);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.Append(id);
    text += detokenizer.Flush();
    ASSERT_EQ(text, tokenizer.Decode(ids));
  }
}

TEST(TokenizerSmollm, EqualsHuggingFace) { ExpectGolden("smollm", *Load("smollm2-135m", "")); }

TEST(TokenizerSmollm, EqualsHuggingFaceWithTheDefaultPreTokenizer) {
  ExpectGolden("default", *Load("smollm2-135m", "default"));
}

TEST(TokenizerSmollm, EqualsHuggingFaceWithTheLlamaPreTokenizer) {
  ExpectGolden("llama-bpe", *Load("smollm2-135m", "llama-bpe"));
}

TEST(TokenizerSmollm, StreamsWholeCharacters) { ExpectStreamsWhole(*Load("smollm2-135m", "")); }

TEST(TokenizerQwen2, EqualsHuggingFace) { ExpectGolden("qwen2", *Load("qwen2.5-coder-0.5b", "")); }

TEST(TokenizerQwen2, BytesComeBackExceptForNormalisation) {
  ExpectBytesComeBack(*Load("qwen2.5-coder-0.5b", "llama-bpe"));
}

TEST(TokenizerGemma3, EqualsSentencePiece) { ExpectGolden("gemma3", *Load("gemma3-270m", "")); }

TEST(TokenizerGemma3, BytesComeBack) { ExpectBytesComeBack(*Load("gemma3-270m", "")); }

TEST(TokenizerGemma3, StreamsWholeCharacters) { ExpectStreamsWhole(*Load("gemma3-270m", "")); }

}  // namespace
}  // namespace kvant
