#include "kvant/engine/model.h"

namespace kvant {

Model LoadModel(const std::filesystem::path& path) { return LoadModel(GgufFile::Open(path)); }

Model LoadModel(const GgufFile& file) {
  Model model;
  model.config = ReadModelConfig(file);
  const TokenizerData tokenizer = ReadTokenizerData(file);
  model.tokenizer = MakeTokenizer(tokenizer);
  model.tokenizer_bytes = TokenizerBytes(tokenizer);
  model.chat_template = file.StringOr("tokenizer.chat_template", "");
  model.weights = LoadWeights(file, model.config);
  model.geometry = GeometryOf(model.config, model.weights);
  model.digest = file.digest();
  return model;
}

}  // namespace kvant
