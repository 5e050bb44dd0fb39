#include "kvant/engine/model.h"

#include <fmt/format.h>

#include "kvant/core/error.h"

namespace kvant {

Model LoadModel(const std::filesystem::path& path) { return LoadModel(GgufFile::Open(path)); }

Model LoadModel(const GgufFile& file) {
  Model model;
  model.config = ReadModelConfig(file);
  const TokenizerData tokenizer = ReadTokenizerData(file);
  model.tokenizer = MakeTokenizer(tokenizer);
  model.tokenizer_bytes = TokenizerBytes(tokenizer);
  model.chat_template = file.StringOr("tokenizer.chat_template", "");
  if (model.tokenizer->vocabulary() > model.config.vocabulary) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("the tokenizer has {} tokens, token_embd.weight only {} rows",
                            model.tokenizer->vocabulary(), model.config.vocabulary),
                "convert the checkpoint again");
  }
  model.weights = LoadWeights(file, model.config);
  model.geometry = GeometryOf(model.config, model.weights);
  model.digest = file.digest();
  return model;
}

}  // namespace kvant
