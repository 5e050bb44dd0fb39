#include "kvant/kernel/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "kvant/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/kernel/isa.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace {

Isa IsaOfTarget() {
  if (HWY_TARGET == HWY_AVX3) return Isa::kAvx512;
  if (HWY_TARGET == HWY_AVX2) return Isa::kAvx2;
  return Isa::kPortable;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {

HWY_EXPORT(IsaOfTarget);

namespace {

// Highway's target bits of each path.
int64_t TargetsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return HWY_AVX3;
    case Isa::kAvx2:
      return HWY_AVX2;
    case Isa::kPortable:
      return HWY_SCALAR | HWY_EMU128;
  }
  return 0;
}

bool forced = false;

// What was compiled and this CPU has. Highway's SupportedTargets() also makes every kernel choose
// its path anew and so forgets a forced one: it is called here only, before any path is forced.
int64_t UsableTargets() {
  static const int64_t usable = [] {
    const int64_t everywhere = HWY_STATIC_TARGET;
    return (hwy::SupportedTargets() | everywhere) & HWY_TARGETS;
  }();
  return usable;
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "portable";
}

std::vector<Isa> AllIsas() { return {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}; }

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> available;
  for (const Isa isa : AllIsas()) {
    if ((UsableTargets() & TargetsOf(isa)) != 0) available.push_back(isa);
  }
  return available;
}

Isa ActiveIsa() { return HWY_DYNAMIC_DISPATCH(IsaOfTarget)(); }

bool IsaIsForced() { return forced; }

void ForceIsa(Isa isa) {
  const std::vector<Isa> available = AvailableIsas();
  KVANT_CHECK(std::find(available.begin(), available.end(), isa) != available.end());
  int64_t targets = UsableTargets();
  for (const Isa better : AllIsas()) {
    if (better > isa) targets &= ~TargetsOf(better);
  }
  hwy::GetChosenTarget().Update(targets);
  KVANT_CHECK(ActiveIsa() == isa);
}

void ApplyIsaFromEnvironment() {
  const char* text = std::getenv("KVANT_ISA");
  if (text == nullptr || *text == '\0') return;
  const std::vector<Isa> available = AvailableIsas();
  std::vector<std::string_view> names;
  for (const Isa isa : available) {
    names.push_back(IsaName(isa));
    if (IsaName(isa) != text) continue;
    ForceIsa(isa);
    forced = true;
    return;
  }
  throw Error(ErrorCode::kUsage, fmt::format("KVANT_ISA='{}' cannot run on this machine", text),
              fmt::format("available here: {}", fmt::join(names, ", ")));
}

}  // namespace kvant
#endif
