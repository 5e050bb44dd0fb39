// Whatever the text is, a format and a plan are read or refused with an Error{kUsage}; what was
// read prints to a text that means the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvant/core/error.h"
#include "kvant/format/kv_plan.h"

namespace kvant {
namespace {

void CheckFormatText(std::string_view text) {
  try {
    const KvFormat format = ParseKvFormat(text);
    KVANT_CHECK(ParseKvFormat(ToString(format)) == format);
    KVANT_CHECK(BitsPerValue(format.k, 64) >= 2 && BitsPerValue(format.v, 64) >= 2);
  } catch (const Error& error) {
    KVANT_CHECK(error.code() == ErrorCode::kUsage);
  }
}

void CheckPlanText(std::string_view text) {
  KvGeometry geometry;
  geometry.num_layers = 9;
  geometry.num_kv_heads = 2;
  geometry.head_dim = 96;
  geometry.sliding_window = {true, true, false, true, true, false, true, true, false};
  geometry.has_k_bias.assign(9, true);
  try {
    const KvPlan plan = MakeKvPlan(text, geometry);
    KVANT_CHECK(plan.layers.size() == geometry.num_layers);
    KVANT_CHECK(PlanDigest(plan) == PlanDigest(MakeKvPlan(text, geometry)));
    KVANT_CHECK(!DescribePlan(plan).empty());
  } catch (const Error& error) {
    KVANT_CHECK(error.code() == ErrorCode::kUsage);
  }
}

}  // namespace
}  // namespace kvant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  kvant::CheckFormatText(text);
  kvant::CheckPlanText(text);
  return 0;
}
