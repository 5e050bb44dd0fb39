#include "kvant/kernel/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "hwy/highway.h"
#include "hwy/targets.h"
#include "kvant/core/error.h"

namespace kvant {

namespace {

// Highway's target bits of each path.
int64_t TargetsOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return HWY_AVX3;
    case Isa::kAvx2:
      return HWY_AVX2;
    case Isa::kPortable:
      return HWY_STATIC_TARGET;
  }
  return HWY_STATIC_TARGET;
}

bool forced = false;

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
  // What the CPU has, whatever has been forced.
  static const int64_t supported = [] {
    hwy::DisableTargets(0);
    return hwy::SupportedTargets();
  }();
  std::vector<Isa> available;
  for (const Isa isa : AllIsas()) {
    if (isa == Isa::kPortable || (supported & TargetsOf(isa)) != 0) available.push_back(isa);
  }
  return available;
}

Isa ActiveIsa() {
  AvailableIsas();
  const int64_t supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX3) != 0) return Isa::kAvx512;
  if ((supported & HWY_AVX2) != 0) return Isa::kAvx2;
  return Isa::kPortable;
}

bool IsaIsForced() { return forced; }

void ForceIsa(Isa isa) {
  const std::vector<Isa> available = AvailableIsas();
  KVANT_CHECK(std::find(available.begin(), available.end(), isa) != available.end());
  int64_t disabled = 0;
  for (const Isa better : AllIsas()) {
    if (better > isa) disabled |= TargetsOf(better);
  }
  hwy::DisableTargets(disabled);
  // Highway caches its choice; a new mask makes the next dispatch choose again.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
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
