// Divergence samples: every document under the baseline and all groups in lockstep.
#pragma once

#include <vector>

#include "kvant/evaluate/divergence.h"
#include "kvant/experiment/run_context.h"

namespace kvant {

// Stores, per group, bucket and document, a sample of kind "divergence": payload {document,
// first_position, tokens, held_bytes, counts: {k: […], v: […]} per layer}, values as
// PackPositions. Per bucket and document one of kind "held": {tokens, held_bytes, counts} of the
// baseline. And once per group and bucket one of kind "decode_check": the last positions of
// the first document by prefill against the same tokens one by one.
void RunDivergence(const RunContext& context);

// One layer of the group quantized at a time, all others as the baseline; kind
// "layer_sensitivity": payload {layer, mean_kld}.
void RunLayerSensitivity(const RunContext& context, const std::string& group);
Work LayerSensitivityWork(const ExperimentConfig& config, uint32_t num_layers);

Work DivergenceWork(const ExperimentConfig& config);

// Four float32 per position: KLD, log p of the baseline and of the candidate, and a bit mask
// (1: same top-1, 2: not finite).
std::vector<uint8_t> PackPositions(const std::vector<PositionDivergence>& positions);
// Throws Error{kInvalidInput} if the size is not a multiple of a position's.
std::vector<PositionDivergence> UnpackPositions(const std::vector<uint8_t>& bytes);

}  // namespace kvant
