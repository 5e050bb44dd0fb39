#include "kvant/kernel/dequantize.h"

#include <cstring>

#include "kvant/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/dequantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After highway.h: compiled once per target.
#include "kvant/kernel/dequantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

void DequantizeRowForTarget(WeightType type, const uint8_t* row, uint64_t elements, float* out) {
  WithWeightBlock(type, [&](auto block) HWY_ATTR {
    using Block = decltype(block);
    const uint64_t whole = elements / Block::kElements * Block::kElements;
    DecodeToMemory<Block>(row, whole, out);
    if (whole == elements) return;
    float last[Block::kElements];
    DecodeToMemory<Block>(row + whole / Block::kElements * Block::kBytes, elements - whole, last);
    std::memcpy(out + whole, last, (elements - whole) * sizeof(float));
  });
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
