#include "kvant/engine/model.h"

#include "kvant/model/gguf/gguf_file.h"

namespace kvant {

Model LoadModel(const std::filesystem::path& path) {
  const GgufFile file = GgufFile::Open(path);
  Model model;
  model.path = path;
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
