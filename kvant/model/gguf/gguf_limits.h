// What a GGUF may hold at most. Real checkpoints stay far below each limit; together they bound
// the memory that a hostile header can ask for (docs/design/gguf.md).
#pragma once

#include <cstdint>

namespace kvant {

// Magic, counts, metadata and tensor descriptions together.
inline constexpr uint64_t kMaxGgufHeaderBytes = 256ULL << 20;
inline constexpr uint64_t kMaxGgufKeys = 1ULL << 16;
inline constexpr uint64_t kMaxGgufTensors = 1ULL << 16;
inline constexpr uint64_t kMaxGgufKeyBytes = 1024;
// The GGUF specification's own limit.
inline constexpr uint64_t kMaxGgufTensorNameBytes = 64;
inline constexpr uint64_t kMaxGgufStringBytes = 64ULL << 20;
// All arrays of one file together: a 262,144-token vocabulary with scores, types and merges uses
// an eighth of it.
inline constexpr uint64_t kMaxGgufArrayElements = 1ULL << 23;
inline constexpr uint32_t kMaxGgufDimensions = 4;

}  // namespace kvant
