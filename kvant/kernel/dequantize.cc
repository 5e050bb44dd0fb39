#include "kvant/kernel/dequantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/dequantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kvant/kernel/dequantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

void DequantizeRowForTarget(WeightType type, const uint8_t* row, uint64_t elements, float* out) {
  DecodeWeights(type, row, elements, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(DequantizeRowForTarget);

void DequantizeRow(WeightType type, const uint8_t* row, uint64_t elements, float* out) {
  KVANT_CHECK(elements % WeightBlockElements(type) == 0);
  HWY_DYNAMIC_DISPATCH(DequantizeRowForTarget)(type, row, elements, out);
}

}  // namespace kvant
#endif
