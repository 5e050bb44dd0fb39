// Any text through both kinds of tokenizer: it comes back, in a stream as well; and any vocabulary
// built from the input either works or is refused. The first byte chooses.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/detokenizer.h"
#include "kvant/model/tokenizer/small_vocabulary.h"
#include "kvant/model/tokenizer/tokenizer.h"
#include "kvant/model/tokenizer/utf8.h"

namespace {

using kvant::TokenId;
using kvant::Tokenizer;
using kvant::TokenizerData;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

std::string Lossy(std::string_view bytes) {
  kvant::Utf8Assembler assembler;
  std::string text = assembler.Append(bytes);
  return text + assembler.Flush();
}

void CheckStream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  kvant::StreamingDetokenizer detokenizer(tokenizer, true);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.Append(id);
    KVANT_CHECK(Lossy(part) == part);
    text += part;
  }
  text += detokenizer.Flush();
  KVANT_CHECK(text == Lossy(tokenizer.Decode(ids, true)));
}

// `exact`: the vocabulary has every byte and changes none.
void CheckText(const Tokenizer& tokenizer, std::string_view text, bool exact) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.Encode(text, {.parse_special = parse_special});
    for (const TokenId id : ids) {
      KVANT_CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer.vocabulary());
      if (!parse_special) KVANT_CHECK(!tokenizer.IsSpecial(id));
    }
    if (exact) KVANT_CHECK(tokenizer.Decode(ids, true) == text);
    CheckStream(tokenizer, ids);
  }
}

std::unique_ptr<Tokenizer> BytePair(const char* pre) {
  TokenizerData data = kvant::SmallBytePair();
  data.pre = pre;
  return kvant::MakeTokenizer(data);
}

// Tokens, types, scores and merges from lines of the input; the rest of it is the text.
void CheckVocabulary(std::string_view input) {
  TokenizerData data =
      (input.size() & 1) != 0 ? kvant::SmallBytePair() : kvant::SmallSentencePiece();
  while (input.size() > 2) {
    const size_t end = input.find('\n', 2);
    if (end == std::string_view::npos) break;
    const std::string line(input.substr(2, end - 2));
    const auto number = static_cast<uint8_t>(input[1]);
    switch (static_cast<uint8_t>(input[0]) % 5) {
      case 0:
        kvant::AddToken(&data, line, static_cast<kvant::TokenType>(1 + number % 6), number);
        break;
      case 1:
        data.merges.push_back(line);
        break;
      case 2:
        data.bos = static_cast<TokenId>(number) - 8;
        break;
      case 3:
        data.pre = line;
        break;
      default:
        data.tokens[number % data.tokens.size()] = line;
        break;
    }
    input.remove_prefix(end + 1);
  }
  try {
    CheckText(*kvant::MakeTokenizer(data), input, false);
  } catch (const kvant::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const std::unique_ptr<Tokenizer> tokenizers[] = {
      BytePair("default"), BytePair("smollm"), BytePair("llama-bpe"), BytePair("qwen2"),
      kvant::MakeTokenizer(kvant::SmallSentencePiece())};
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const size_t choice = bytes[0] % 6;
  if (choice == 5) {
    CheckVocabulary(text);
  } else {
    // qwen2 composes characters; to SentencePiece U+2581 is a space.
    const bool exact =
        choice < 3 || (choice == 4 && text.find(kSpaceMark) == std::string_view::npos);
    CheckText(*tokenizers[choice], text, exact);
  }
  return 0;
}
