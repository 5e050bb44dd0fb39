#include "kvant/kernel/vector_ops.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/vector_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: compiled once per target.
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Calls vector(i) for whole vectors and scalar-sized tails through a padded copy.
template <typename Function>
HWY_INLINE void ForVectors(float* a, const float* b, size_t count, const Function& function) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(function(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, a + i);
  }
  if (i == count) return;
  HWY_ALIGN float pad_a[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN float pad_b[HWY_MAX_BYTES / sizeof(float)] = {};
  for (size_t j = i; j < count; ++j) {
    pad_a[j - i] = a[j];
    pad_b[j - i] = b[j];
  }
  hn::Store(function(hn::Load(d, pad_a), hn::Load(d, pad_b)), d, pad_a);
  for (size_t j = i; j < count; ++j) a[j] = pad_a[j - i];
}

// 1 / (1 + exp(-x)). Beyond 87 exp(-x) would leave float32, and the result is 0 anyway.
HWY_INLINE FloatVec Sigmoid(FloatVec x) {
  const FloatTag d;
  const FloatVec exponent = hn::Min(hn::Neg(x), hn::Set(d, 87.0F));
  return hn::Div(hn::Set(d, 1.0F), hn::Add(hn::Set(d, 1.0F), hn::Exp(d, exponent)));
}

using DoubleTag = hn::ScalableTag<double>;
using DoubleVec = hn::Vec<DoubleTag>;

HWY_INLINE DoubleVec LoadAsDouble(const float* values) {
  return hn::PromoteTo(DoubleTag(), hn::LoadU(hn::Rebind<float, DoubleTag>(), values));
}

// Below this, exp is less than float64 holds beside a sum of at least one, and Highway's Exp would
// return garbage far below it.
constexpr double kSmallestExponent = -700;

HWY_INLINE DoubleVec ExpOf(DoubleVec x) {
  const DoubleTag d;
  return hn::Exp(d, hn::Max(x, hn::Set(d, kSmallestExponent)));
}

double SumOfExponentialsForTarget(const float* logits, size_t count, float maximum) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  const DoubleVec shift = hn::Set(d, static_cast<double>(maximum));
  DoubleVec even = hn::Zero(d);
  DoubleVec odd = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    even = hn::Add(even, ExpOf(hn::Sub(LoadAsDouble(logits + i), shift)));
    odd = hn::Add(odd, ExpOf(hn::Sub(LoadAsDouble(logits + i + lanes), shift)));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < count; ++i) sum += std::exp(static_cast<double>(logits[i]) - maximum);
  return sum;
}

double KlDivergenceForTarget(const float* p_logits, double p_log_sum, const float* q_logits,
                             double q_log_sum, size_t count) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  const DoubleVec p_shift = hn::Set(d, p_log_sum);
  const DoubleVec q_shift = hn::Set(d, q_log_sum);
  DoubleVec total = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const DoubleVec log_p = hn::Sub(LoadAsDouble(p_logits + i), p_shift);
    const DoubleVec log_q = hn::Sub(LoadAsDouble(q_logits + i), q_shift);
    total = hn::MulAdd(ExpOf(log_p), hn::Sub(log_p, log_q), total);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) {
    const double log_p = p_logits[i] - p_log_sum;
    sum += std::exp(log_p) * (log_p - (q_logits[i] - q_log_sum));
  }
  return sum;
}

// Eight chains whatever the vector's length: the product of two floats is exact in float64, so all
// instruction sets add the same numbers in the same order.
constexpr size_t kNormChains = 8;

void RmsNormForTarget(const float* x, const float* weight, size_t count, float epsilon,
                      float* out) {
  double chains[kNormChains] = {};
  size_t i = 0;
  for (; i + kNormChains <= count; i += kNormChains) {
    for (size_t c = 0; c < kNormChains; ++c) {
      const double value = x[i + c];
      chains[c] += value * value;
    }
  }
  double squares = 0;
  for (const double chain : chains) squares += chain;
  for (; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  const auto inverse = static_cast<float>(
      1.0 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(epsilon)));
  for (i = 0; i < count; ++i) out[i] = x[i] * inverse * weight[i];
}

void AddInPlaceForTarget(const float* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

void SiluTimesForTarget(float* gate, const float* up, size_t count) {
  ForVectors(gate, up, count,
             [](FloatVec g, FloatVec u) { return hn::Mul(hn::Mul(g, Sigmoid(g)), u); });
}

// 0.5 x (1 + tanh(z)) = x · sigmoid(2z), z = sqrt(2/π) (x + 0.044715 x³).
void GeluTanhTimesForTarget(float* gate, const float* up, size_t count) {
  ForVectors(gate, up, count, [](FloatVec g, FloatVec u) {
    const FloatTag d;
    const FloatVec cubic = hn::Mul(hn::Mul(g, g), hn::Mul(g, hn::Set(d, 0.044715F)));
    const FloatVec two_z = hn::Mul(hn::Set(d, 2 * 0.7978845608028654F), hn::Add(g, cubic));
    return hn::Mul(hn::Mul(g, Sigmoid(two_z)), u);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(AddInPlaceForTarget);
HWY_EXPORT(GeluTanhTimesForTarget);
HWY_EXPORT(KlDivergenceForTarget);
HWY_EXPORT(RmsNormForTarget);
HWY_EXPORT(SiluTimesForTarget);
HWY_EXPORT(SumOfExponentialsForTarget);

void RmsNorm(const float* x, const float* weight, size_t count, float epsilon, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNormForTarget)(x, weight, count, epsilon, out);
}

void AddInPlace(const float* from, size_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(AddInPlaceForTarget)(from, count, to);
}

void SiluTimes(float* gate, const float* up, size_t count) {
  HWY_DYNAMIC_DISPATCH(SiluTimesForTarget)(gate, up, count);
}

void GeluTanhTimes(float* gate, const float* up, size_t count) {
  HWY_DYNAMIC_DISPATCH(GeluTanhTimesForTarget)(gate, up, count);
}

double SumOfExponentials(const float* logits, size_t count, float maximum) {
  return HWY_DYNAMIC_DISPATCH(SumOfExponentialsForTarget)(logits, count, maximum);
}

double KlDivergence(const float* p_logits, double p_log_sum, const float* q_logits,
                    double q_log_sum, size_t count) {
  return HWY_DYNAMIC_DISPATCH(KlDivergenceForTarget)(p_logits, p_log_sum, q_logits, q_log_sum,
                                                     count);
}

}  // namespace kvant
#endif
