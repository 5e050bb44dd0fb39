// Runs a test's body once per instruction set that this machine has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kvant/kernel/isa.h"

namespace kvant {

// Calls body() under every available instruction set, and prints which were not tested. The one
// that was active is active again afterwards.
template <typename Body>
void ForEachIsa(const Body& body) {
  const Isa active = ActiveIsa();
  const std::vector<Isa> available = AvailableIsas();
  for (const Isa isa : AllIsas()) {
    const std::string name(IsaName(isa));
    if (std::find(available.begin(), available.end(), isa) == available.end()) {
      std::printf("NOT TESTED on this machine: %s\n", name.c_str());
      continue;
    }
    SCOPED_TRACE(name);
    ForceIsa(isa);
    body();
  }
  ForceIsa(active);
}

}  // namespace kvant
