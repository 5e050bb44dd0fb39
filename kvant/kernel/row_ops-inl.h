// Sums, products and scaling of short rows of float32, whole vectors at a time.
#if defined(KVANT_KERNEL_ROW_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_ROW_OPS_INL_H_
#undef KVANT_KERNEL_ROW_OPS_INL_H_
#else
#define KVANT_KERNEL_ROW_OPS_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "kvant/kernel/code_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

float SumOf(const float* values, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sum = hn::Zero(d);
  for (size_t i = 0; i < count; i += lanes) sum = hn::Add(sum, hn::LoadU(d, values + i));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

float DotOf(const float* a, const float* b, size_t count) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  FloatVec sum = hn::Zero(d);
  for (size_t i = 0; i < count; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void AddTo(float* values, size_t count, float addend) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, addend);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::LoadU(d, values + i), v), d, values + i);
  }
}

void ScaleBy(float* values, size_t count, float factor) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), v), d, values + i);
  }
}

// out[i] = a[i] * b[i]
void Product(const float* a, const float* b, size_t count, float* out) {
  const FloatTag d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
}

// out[i] += a[i] * b[i]
void AddProduct(const float* a, const float* b, size_t count, float* out) {
  const FloatTag d;
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, out + i)), d,
               out + i);
  }
}

// out[i] += factor * b[i]
void AddScaled(float factor, const float* b, size_t count, float* out) {
  const FloatTag d;
  const FloatVec v = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::MulAdd(v, hn::LoadU(d, b + i), hn::LoadU(d, out + i)), d, out + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
