// The orthonormal Hadamard transform of a head's vector.
//
// Size: a power of two (Sylvester), or a power of two times 12, 20 or 28 (Kronecker product with
// Paley's matrix): 64, 80, 96, 112, 128, 192, 256, … . H is normalised, so H·Hᵀ = I and
// (Hq)·(Hk) = q·k. Signs: x is first multiplied by a fixed ±1 vector (SHA-independent, from
// RandomAt(kHadamardSeed, channel)), so that a spike or a constant vector does not map to another.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvant {

inline constexpr uint64_t kHadamardSeed = 0x9E3779B9;

bool HasHadamard(uint32_t size);

// In place: x <- H · (signs ∘ x). REQUIRES: HasHadamard(x.size()).
void ApplyHadamard(std::span<float> x);
// In place: x <- signs ∘ (Hᵀ · x).
void InvertHadamard(std::span<float> x);

// Identity of matrix and signs, part of a plan's digest.
std::string HadamardIdentity();

}  // namespace kvant
