#include "kvant/model/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "kvant/core/error.h"
#include "kvant/model/tokenizer/byte_pair_tokenizer.h"
#include "kvant/model/tokenizer/sentencepiece_tokenizer.h"
#include "kvant/model/tokenizer/token_matcher.h"

namespace kvant {

namespace {

constexpr size_t kMaxVocabulary = 1U << 22;

// Names under which models end a turn or a text, whatever their metadata says.
constexpr std::array<std::string_view, 9> kEndNames = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>",
    "</s>",       "<|eom_id|>",    "<EOT>"};

Error Invalid(const std::string& what) {
  return Error(ErrorCode::kInvalidInput, "tokenizer: " + what,
               "the file's vocabulary is damaged; fetch it again");
}

void CheckId(const std::optional<TokenId>& id, size_t vocabulary, const char* name) {
  if (id && (*id < 0 || static_cast<size_t>(*id) >= vocabulary)) {
    throw Invalid(
        fmt::format("{} token {} is outside the vocabulary of {}", name, *id, vocabulary));
  }
}

void CheckTokens(const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, size_t> places;
  places.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty() || tokens[id].size() > kMaxTokenBytes) {
      throw Invalid(fmt::format("token {} has {} bytes; 1 to {} are possible", id,
                                tokens[id].size(), kMaxTokenBytes));
    }
    const auto [place, is_new] = places.emplace(tokens[id], id);
    if (!is_new) throw Invalid(fmt::format("tokens {} and {} are the same", place->second, id));
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
  CheckTokens(data.tokens);
  CheckId(data.bos, count, "beginning");
  CheckId(data.eos, count, "end");
  CheckId(data.eot, count, "end-of-turn");
  CheckId(data.eom, count, "end-of-message");
  CheckId(data.unknown, count, "unknown");
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerData& data, std::vector<std::string> pieces,
                     std::initializer_list<TokenType> special)
    : types_(data.types),
      pieces_(std::move(pieces)),
      bos_(data.bos),
      eos_(data.eos),
      add_bos_(data.add_bos && data.bos.has_value()),
      add_eos_(data.add_eos && data.eos.has_value()) {
  if (types_.empty()) types_.assign(data.tokens.size(), TokenType::kNormal);
  special_ = std::make_unique<TokenMatcher>(MatcherOf(special));
  FindEndsOfGeneration(data);
}

Tokenizer::~Tokenizer() = default;

void Tokenizer::FindEndsOfGeneration(const TokenizerData& data) {
  for (const std::optional<TokenId>& id : {data.eos, data.eot, data.eom}) {
    if (id) end_of_generation_.push_back(*id);
  }
  for (size_t id = 0; id < types_.size(); ++id) {
    if (types_[id] == TokenType::kControl &&
        std::find(kEndNames.begin(), kEndNames.end(), pieces_[id]) != kEndNames.end()) {
      end_of_generation_.push_back(static_cast<TokenId>(id));
    }
  }
  std::sort(end_of_generation_.begin(), end_of_generation_.end());
}

TokenMatcher Tokenizer::MatcherOf(std::initializer_list<TokenType> types) const {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (size_t id = 0; id < types_.size(); ++id) {
    if (std::find(types.begin(), types.end(), types_[id]) != types.end()) {
      tokens.emplace_back(pieces_[id], static_cast<TokenId>(id));
    }
  }
  return TokenMatcher(std::move(tokens));
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    throw Error(
        ErrorCode::kInvalidInput,
        fmt::format("a text of {} bytes; at most {} can be tokenized", text.size(), kMaxTextBytes));
  }
  std::vector<TokenId> out;
  if (options.add_special && add_bos_) out.push_back(*bos_);
  const auto ordinary = [&](std::string_view part) { EncodeOrdinary(part, &out); };
  if (options.parse_special) {
    special_->Split(text, ordinary, [&](TokenId token) { out.push_back(token); });
  } else if (!text.empty()) {
    ordinary(text);
  }
  if (options.add_special && add_eos_) out.push_back(*eos_);
  return out;
}

std::string Tokenizer::Piece(TokenId token, bool show_special) const {
  if (!Has(token) || (IsSpecial(token) && !show_special)) return "";
  return piece(token);
}

std::string Tokenizer::Decode(const std::vector<TokenId>& tokens, bool show_special) const {
  std::string text;
  for (const TokenId token : tokens) text += Piece(token, show_special);
  return text;
}

bool Tokenizer::IsSpecial(TokenId token) const {
  return Has(token) && (type(token) == TokenType::kControl || type(token) == TokenType::kUnknown);
}

bool Tokenizer::IsEndOfGeneration(TokenId token) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), token);
}

std::optional<TokenId> Tokenizer::Find(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  const std::optional<TokenMatcher::Match> special = special_->At(text, 0);
  if (special && special->bytes == text.size()) return special->token;
  const auto found = std::find(pieces_.begin(), pieces_.end(), text);
  if (found == pieces_.end()) return std::nullopt;
  return static_cast<TokenId>(found - pieces_.begin());
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
      if (type < 0 || type > 6) throw Invalid(fmt::format("token type {}", type));
      // 0 is "undefined".
      data.types.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));
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
  data.eom = id("eom_token_id");
  data.unknown = id("unknown_token_id");
  const bool sentencepiece = data.model == "llama";
  // What llama.cpp takes for files that do not say.
  const bool adds_bos = sentencepiece || data.pre == "llama-bpe";
  data.add_bos = file.BoolOr(prefix + "add_bos_token", adds_bos);
  data.add_eos = file.BoolOr(prefix + "add_eos_token", false);
  data.add_space_prefix = file.BoolOr(prefix + "add_space_prefix", sentencepiece);
  return data;
}

uint64_t TokenizerBytes(const TokenizerData& data) {
  // A string, its type, its hash node and its table slot; a merge takes 16 bytes of a table that is
  // at least a quarter and at most half full.
  constexpr uint64_t kPerToken = 96;
  constexpr uint64_t kPerMerge = 64;
  uint64_t bytes = data.tokens.size() * kPerToken + data.merges.size() * kPerMerge;
  for (const std::string& token : data.tokens) bytes += token.size();
  return bytes;
}

}  // namespace kvant
