// The element-wise operations of a transformer layer, in float32.
#pragma once

#include <cstddef>

namespace kvant {

// out[i] = x[i] / sqrt(mean(x²) + epsilon) · weight[i]. The mean is summed in float64. out may be x.
void RmsNorm(const float* x, const float* weight, size_t count, float epsilon, float* out);

// to[i] += from[i]
void AddInPlace(const float* from, size_t count, float* to);

// gate[i] = silu(gate[i]) · up[i]
void SiluTimes(float* gate, const float* up, size_t count);

// gate[i] = gelu(gate[i]) · up[i], the tanh form.
void GeluTanhTimes(float* gate, const float* up, size_t count);

}  // namespace kvant
