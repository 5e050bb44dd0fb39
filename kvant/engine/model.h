// A checkpoint, loaded: configuration, weights, tokenizer and chat template.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kvant/core/sha256.h"
#include "kvant/model/gguf/gguf_file.h"
#include "kvant/model/model_config.h"
#include "kvant/model/tokenizer/tokenizer.h"
#include "kvant/model/weights.h"

namespace kvant {

struct Model {
  Digest digest{};  // SHA-256 of the file
  ModelConfig config;
  ModelWeights weights;
  KvGeometry geometry;
  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template;     // Jinja source, empty if the file has none
  uint64_t tokenizer_bytes = 0;  // estimate, for the memory budget
};

// Throws Error on anything the file breaks a rule of; nothing is left half loaded.
Model LoadModel(const std::filesystem::path& path);
Model LoadModel(const GgufFile& file);

}  // namespace kvant
