// Which instruction set the kernels run with.
#pragma once

#include <string_view>
#include <vector>

namespace kvant {

enum class Isa { kPortable, kAvx2, kAvx512 };

std::string_view IsaName(Isa isa);  // "portable", "avx2", "avx512"
std::vector<Isa> AllIsas();
// Those that were compiled and that this CPU and operating system can run, the slowest first.
std::vector<Isa> AvailableIsas();

// The one in use, as the kernels themselves say: the best available, or what the environment
// variable KVANT_ISA names.
Isa ActiveIsa();
bool IsaIsForced();

// Applies KVANT_ISA. Called once, before any kernel. Throws Error{kUsage} for a name that does not
// exist or that this machine cannot run.
void ApplyIsaFromEnvironment();

// Forces a path. REQUIRES: it is available; no kernel is running.
void ForceIsa(Isa isa);

}  // namespace kvant
