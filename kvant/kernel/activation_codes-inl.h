// Activations as 16-bit integers, the form that packed weights are multiplied with when decoding.
#if defined(KVANT_KERNEL_ACTIVATION_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_KERNEL_ACTIVATION_CODES_INL_H_
#undef KVANT_KERNEL_ACTIVATION_CODES_INL_H_
#else
#define KVANT_KERNEL_ACTIVATION_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kvant/kernel/gemv.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The largest magnitude of a group becomes 32,767 steps. Below this magnitude a group counts as
// zero, since the inverse of its step would overflow.
constexpr float kSmallestMagnitude = 0x1p-100F;

// 32 activations: codes, the step, and the step times the sum of the codes. A group with a NaN or
// an infinity gets a NaN for a step, which reaches every output.
HWY_INLINE void EncodeActivationGroup(const float* x, int16_t* codes, float* step, float* sum) {
  const hn::CappedTag<float, 8> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int16_t, decltype(d)> d16;
  // Magnitudes are ordered as their bits are, NaN above infinity above all numbers.
  auto largest_bits = hn::Zero(di);
  for (size_t i = 0; i < 32; i += hn::MaxLanes(d)) {
    largest_bits = hn::Max(largest_bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  }
  const float largest = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, largest_bits)));
  const bool finite = largest <= std::numeric_limits<float>::max();
  const bool counts = finite && largest >= kSmallestMagnitude;
  const auto inverse = hn::Set(d, counts ? 32767.0F / largest : 0.0F);
  auto code_sum = hn::Zero(di);
  for (size_t i = 0; i < 32; i += hn::MaxLanes(d)) {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), inverse);
    const auto code = finite ? hn::NearestInt(scaled) : hn::Zero(di);
    code_sum = hn::Add(code_sum, code);
    hn::StoreU(hn::DemoteTo(d16, code), d16, codes + i);
  }
  *step = counts ? largest / 32767.0F : 0.0F;
  if (!finite) *step = std::numeric_limits<float>::quiet_NaN();
  *sum = *step * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, code_sum)));
}

// One row, its steps and sums followed by zeros up to a whole tile. REQUIRES: columns a multiple of
// 32.
HWY_INLINE void EncodeActivations(const float* x, size_t columns, const ActivationCodes& out) {
  const size_t groups = columns / 32;
  for (size_t group = 0; group < groups; ++group) {
    EncodeActivationGroup(x + 32 * group, out.codes + 32 * group, out.steps + group,
                          out.sums + group);
  }
  for (size_t group = groups; group % 8 != 0; ++group) out.steps[group] = out.sums[group] = 0;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();
#endif
