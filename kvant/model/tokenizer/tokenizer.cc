#include "kvant/model/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/byte_pair_tokenizer.h"
#include "kvant/model/tokenizer/sentencepiece_tokenizer.h"

namespace kvant {

namespace {

constexpr size_t kMaxVocabulary = 1U << 22;

// Names under which models end a turn or a text, whatever their metadata says.
constexpr std::array<std::string_view, 9> kEndNames = {
    "<|im_end|>",  "<|endoftext|>", "<|eot_id|>",   "<|end_of_text|>", "<end_of_turn>",
    "<|end|>",     "</s>",          "<|eom_id|>",   "<EOT>"};

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

void CheckId(const std::optional<TokenId>& id, size_t vocabulary, const char* name) {
  if (id && (*id < 0 || static_cast<size_t>(*id) >= vocabulary)) {
    throw Invalid(fmt::format("{} token {} is outside the vocabulary of {}", name, *id,
                              vocabulary));
  }
}

void CheckData(const TokenizerData& data) {
  const size_t count = data.tokens.size();
  if (count == 0 || count > kMaxVocabulary) {
    throw Invalid(fmt::format("a vocabulary of {} tokens", count));
  }
  if (!data.types.empty() && data.types.size() != count) {
    throw Invalid(fmt::format("{} token types for {} tokens", data.types.size(), count));
  }
  if (!data.scores.empty() && data.scores.size() != count) {
    throw Invalid(fmt::format("{} scores for {} tokens", data.scores.size(), count));
  }
  CheckId(data.bos, count, "beginning");
  CheckId(data.eos, count, "end");
  CheckId(data.eot, count, "end-of-turn");
  CheckId(data.unknown, count, "unknown");
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerData& data)
    : types_(data.types),
      special_by_first_byte_(256),
      bos_(data.bos),
      eos_(data.eos),
      add_bos_(data.add_bos && data.bos.has_value()),
      add_eos_(data.add_eos && data.eos.has_value()) {
  if (types_.empty()) types_.assign(data.tokens.size(), TokenType::kNormal);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const bool user_defined = types_[id] == TokenType::kUserDefined;
    if (!user_defined && types_[id] != TokenType::kControl) continue;
    const std::string& text = data.tokens[id];
    if (text.empty()) continue;
    special_by_first_byte_[static_cast<uint8_t>(text.front())].push_back(
        {text, static_cast<TokenId>(id), user_defined});
    if (std::find(kEndNames.begin(), kEndNames.end(), text) != kEndNames.end()) {
      end_of_generation_.push_back(static_cast<TokenId>(id));
    }
  }
  for (auto& specials : special_by_first_byte_) {
    std::stable_sort(specials.begin(), specials.end(),
                     [](const SpecialToken& a, const SpecialToken& b) {
                       return a.text.size() > b.text.size();
                     });
  }
  if (data.eos) end_of_generation_.push_back(*data.eos);
  if (data.eot) end_of_generation_.push_back(*data.eot);
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
}

const Tokenizer::SpecialToken* Tokenizer::SpecialAt(std::string_view text,
                                                    bool parse_special) const {
  for (const SpecialToken& special :
       special_by_first_byte_[static_cast<uint8_t>(text.front())]) {
    if ((parse_special || special.user_defined) && text.starts_with(special.text)) {
      return &special;
    }
  }
  return nullptr;
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> out;
  if (options.add_special && add_bos_) out.push_back(*bos_);
  size_t start = 0;
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const SpecialToken* special = SpecialAt(text.substr(at), options.parse_special);
    if (special == nullptr) {
      ++at;
      continue;
    }
    if (at > start) EncodePart(text.substr(start, at - start), first, &out);
    out.push_back(special->id);
    first = false;
    at += special->text.size();
    start = at;
  }
  if (start < text.size()) EncodePart(text.substr(start), first, &out);
  if (options.add_special && add_eos_) out.push_back(*eos_);
  return out;
}

std::string Tokenizer::Decode(const std::vector<TokenId>& tokens, bool show_special) const {
  std::string text;
  for (const TokenId token : tokens) text += Piece(token, show_special);
  return text;
}

bool Tokenizer::IsSpecial(TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= types_.size()) return false;
  return type(token) == TokenType::kControl || type(token) == TokenType::kUnknown;
}

bool Tokenizer::IsEndOfGeneration(TokenId token) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

std::optional<TokenId> Tokenizer::Find(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const SpecialToken* special = SpecialAt(text, true);
  if (special != nullptr && special->text == text) return special->id;
  const std::vector<TokenId> tokens = Encode(text, {});
  if (tokens.size() == 1) return tokens.front();
  return std::nullopt;
}

std::unique_ptr<Tokenizer> MakeTokenizer(const TokenizerData& data) {
  CheckData(data);
  if (data.model == "gpt2") return std::make_unique<BytePairTokenizer>(data);
  if (data.model == "llama") return std::make_unique<SentencePieceTokenizer>(data);
  throw Error(ErrorCode::kUnsupported, fmt::format("tokenizer model '{}'", data.model),
              "supported: gpt2 (byte-level BPE), llama (SentencePiece)");
}

TokenizerData ReadTokenizerData(const GgufFile& file) {
  const std::string prefix = "tokenizer.ggml.";
  TokenizerData data;
  data.model = file.String(prefix + "model");
  data.pre = file.StringOr(prefix + "pre", "default");
  data.tokens = file.Strings(prefix + "tokens");
  if (file.Has(prefix + "token_type")) {
    for (const int64_t type : file.Integers(prefix + "token_type")) {
      if (type < 1 || type > 6) throw Invalid(fmt::format("token type {}", type));
      data.types.push_back(static_cast<TokenType>(type));
    }
  }
  if (file.Has(prefix + "scores")) data.scores = file.Floats(prefix + "scores");
  if (file.Has(prefix + "merges")) data.merges = file.Strings(prefix + "merges");
  const auto id = [&](const char* key) -> std::optional<TokenId> {
    if (!file.Has(prefix + key)) return std::nullopt;
    const uint64_t value = file.Unsigned(prefix + key);
    if (value >= data.tokens.size()) {
      throw Invalid(fmt::format("{}{} = {} is outside the vocabulary", prefix, key, value));
    }
    return static_cast<TokenId>(value);
  };
  data.bos = id("bos_token_id");
  data.eos = id("eos_token_id");
  data.eot = id("eot_token_id");
  data.unknown = id("unknown_token_id");
  const bool sentencepiece = data.model == "llama";
  data.add_bos = file.BoolOr(prefix + "add_bos_token", sentencepiece);
  data.add_eos = file.BoolOr(prefix + "add_eos_token", false);
  data.add_space_prefix = file.BoolOr(prefix + "add_space_prefix", sentencepiece);
  return data;
}

uint64_t TokenizerBytes(const TokenizerData& data) {
  // A string, its hash node and its table slot; a merge is a hash node.
  constexpr uint64_t kPerToken = 160;
  constexpr uint64_t kPerMerge = 64;
  uint64_t bytes = data.tokens.size() * kPerToken + data.merges.size() * kPerMerge;
  for (const std::string& token : data.tokens) bytes += 2 * token.size();
  return bytes;
}

}  // namespace kvant
