#include "kvant/kernel/vector_ops.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/vector_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
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

void SiluTimesForTarget(float* gate, const float* up, size_t count) {
  ForVectors(gate, up, count, [](FloatVec g, FloatVec u) { return hn::Mul(hn::Mul(g, Sigmoid(g)), u); });
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

HWY_EXPORT(SiluTimesForTarget);
HWY_EXPORT(GeluTanhTimesForTarget);

void RmsNorm(const float* x, const float* weight, size_t count, float epsilon, float* out) {
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  const auto inverse =
      static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(count) +
                                         static_cast<double>(epsilon)));
  for (size_t i = 0; i < count; ++i) out[i] = x[i] * inverse * weight[i];
}

void AddInPlace(const float* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

void SiluTimes(float* gate, const float* up, size_t count) {
  HWY_DYNAMIC_DISPATCH(SiluTimesForTarget)(gate, up, count);
}

void GeluTanhTimes(float* gate, const float* up, size_t count) {
  HWY_DYNAMIC_DISPATCH(GeluTanhTimesForTarget)(gate, up, count);
}

}  // namespace kvant
#endif
