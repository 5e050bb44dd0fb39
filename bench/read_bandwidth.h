// What plain reading of memory reaches: the limit that kernels are held against.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "kvant/core/thread_pool.h"

namespace kvant {

// More than a last-level cache holds.
inline constexpr uint64_t kPlainReadBytes = 256ULL << 20;

inline size_t NumThreads() { return std::max(1U, std::thread::hardware_concurrency()); }

// Bytes per second of all threads summing one array, the best of several passes.
inline double MeasureReadBandwidth() {
  ThreadPool pool(NumThreads());
  std::vector<uint64_t> words(kPlainReadBytes / sizeof(uint64_t), 1);
  constexpr size_t kPieces = 64;
  const size_t piece = words.size() / kPieces;
  double best_seconds = 1e9;
  for (int pass = 0; pass < 8; ++pass) {
    std::vector<uint64_t> sums(kPieces);
    const auto start = std::chrono::steady_clock::now();
    pool.ParallelFor(kPieces, [&](size_t index, size_t) {
      const uint64_t* first = words.data() + index * piece;
      sums[index] = std::accumulate(first, first + piece, uint64_t{0});
    });
    benchmark::DoNotOptimize(sums.data());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best_seconds = std::min(best_seconds, seconds.count());
  }
  return static_cast<double>(kPlainReadBytes) / best_seconds;
}

// Measured once per run.
inline double ReadBandwidth() {
  static const double bandwidth = MeasureReadBandwidth();
  return bandwidth;
}

}  // namespace kvant
