// The element-wise operations of a transformer layer, in float32, and the sums over a vocabulary
// that sampling and evaluation need, in float64.
#pragma once

#include <cstddef>

namespace kvant {

// out[i] = x[i] / sqrt(mean(x²) + epsilon) · weight[i]. The mean is summed in float64, in an order
// that is the same on every instruction set. out may be x.
void RmsNorm(const float* x, const float* weight, size_t count, float epsilon, float* out);

// to[i] += from[i]
void AddInPlace(const float* from, size_t count, float* to);

// gate[i] = silu(gate[i]) · up[i]
void SiluTimes(float* gate, const float* up, size_t count);

// gate[i] = gelu(gate[i]) · up[i], the tanh form.
void GeluTanhTimes(float* gate, const float* up, size_t count);

// Σ exp(logits[i] − maximum), in float64. REQUIRES: no NaN; logits[i] <= maximum.
double SumOfExponentials(const float* logits, size_t count, float maximum);

// Σ p[i] (log p[i] − log q[i]) in nats, where log p[i] = p_logits[i] − p_log_sum and q alike;
// in float64. REQUIRES: all finite.
double KlDivergence(const float* p_logits, double p_log_sum, const float* q_logits,
                    double q_log_sum, size_t count);

}  // namespace kvant
