// Calibrated scales on disk: safetensors as vLLM reads them, and a JSON that says where they came
// from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kvant/format/kv_plan.h"
#include "kvant/format/scale_set.h"

namespace kvant {

struct ScaleProvenance {
  std::string model_digest;  // hexadecimal SHA-256 of the checkpoint
  std::string model_name;
  std::string text_digest;  // of the token ids that the sequences were taken from
  uint64_t tokens = 0;
  std::vector<uint64_t> sequence_lengths;
  double percentile = 100;  // of |K| and |V| that the scale covers; 100: the absolute maximum
};

struct CalibratedScales {
  ScaleSet scales;
  ScaleProvenance provenance;
};

// Writes PREFIX.json (everything) and PREFIX.safetensors (compressed-tensors' names:
// model.layers.N.self_attn.k_scale and v_scale; [1] per tensor, [heads, 1, 1] per head; per
// channel [heads, 1, head_dim], which vLLM does not read).
void WriteScaleFiles(const std::filesystem::path& prefix, const CalibratedScales& scales);

// Reads PREFIX.json. Throws Error{kInvalidInput} for anything malformed, a shape that is not the
// geometry's, scales that are zero, negative, not finite or huge, a missing layer, or a model
// digest that is not `model_digest`: a missing scale never becomes 1.0.
CalibratedScales ReadScaleFile(const std::filesystem::path& path, const KvGeometry& geometry,
                               const std::string& model_digest);

// The same from text, for tests and fuzzing.
CalibratedScales ParseScaleJson(std::string_view text, const std::string& source);

// Reads k_scale and v_scale of every layer from a safetensors file in compressed-tensors' naming.
// The codec is FP8 E4M3, the only one that the scheme has there.
ScaleSet ParseCompressedTensorsScales(std::string_view bytes, const std::string& source,
                                      const KvGeometry& geometry);

}  // namespace kvant
