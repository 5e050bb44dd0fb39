// Small promises of the core room that need no file of their own.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "kvant/core/error.h"
#include "kvant/core/file.h"
#include "kvant/core/json.h"
#include "kvant/core/random.h"
#include "kvant/core/sha256.h"
#include "kvant/core/thread_pool.h"

namespace kvant {
namespace {

std::filesystem::path TempPath(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / (name + "." + std::to_string(::getpid()));
}

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Hex(Sha256Of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(Sha256().Field("ab").Field("c").Finish(), Sha256().Field("a").Field("bc").Finish());
}

TEST(ThreadPool, EveryIndexRunsOnceWhateverTheThreads) {
  for (const size_t threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> runs(97);
      pool.ParallelFor(runs.size(), [&](size_t index, size_t worker) {
        EXPECT_LT(worker, threads);
        ++runs[index];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.ParallelFor(10,
                                [](size_t index, size_t) {
                                  if (index == 4) throw Error(ErrorCode::kIo, "x");
                                }),
               Error);
  std::atomic<int> runs = 0;
  pool.ParallelFor(10, [&](size_t, size_t) { ++runs; });
  EXPECT_EQ(runs, 10);
}

// Short loops find the workers spinning, those after a pause find them asleep: neither may lose an
// index or a wake-up.
TEST(ThreadPool, LoopsInQuickSuccessionAndAfterPausesAllComplete) {
  ThreadPool pool(3);
  std::atomic<size_t> runs = 0;
  size_t expected = 0;
  for (size_t round = 0; round < 3000; ++round) {
    const size_t count = 2 + round % 7;
    pool.ParallelFor(count, [&](size_t, size_t) { runs.fetch_add(1, std::memory_order_relaxed); });
    expected += count;
    ASSERT_EQ(runs, expected);
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(round % 300));
  }
}

TEST(ThreadPool, WhatABodyWroteIsVisibleToTheCaller) {
  ThreadPool pool(4);
  std::vector<size_t> written(64);
  for (size_t round = 1; round < 500; ++round) {
    pool.ParallelFor(written.size(), [&](size_t index, size_t) { written[index] = round; });
    for (const size_t value : written) ASSERT_EQ(value, round);
  }
}

// The two indices wait for each other, so two threads run them; the caller's ends first, and the
// caller must block until the other one is done.
TEST(ThreadPool, ALongIndexIsWaitedFor) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> begun = 0;
    std::atomic<int> done = 0;
    pool.ParallelFor(2, [&](size_t, size_t worker) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
      if (worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++done;
    });
    EXPECT_EQ(done, 2);
  }
}

TEST(ThreadPool, EveryIndexThrowsAndTheLoopStillEnds) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    EXPECT_THROW(pool.ParallelFor(50, [](size_t, size_t) { throw Error(ErrorCode::kIo, "x"); }),
                 Error);
  }
  std::atomic<int> runs = 0;
  pool.ParallelFor(10, [&](size_t, size_t) { ++runs; });
  EXPECT_EQ(runs, 10);
}

TEST(Random, DrawsAreUniformEnoughAndRepeat) {
  Random a(1);
  Random b(1);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 20000; ++i) {
    const double x = a.Normal();
    EXPECT_EQ(x, b.Normal());
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) seen.insert(RandomAt(3, i));
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(File, WriteIsAllOrNothing) {
  const auto path = TempPath("atomic");
  WriteFileAtomically(path, "old");
  // A file-size limit stands in for a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(WriteFileAtomically(path, std::string(100, 'x')), Error);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(ReadWholeFile(path, 100), "old");
  size_t leftovers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    leftovers += entry.path().string().starts_with(path.string() + ".tmp") ? 1 : 0;
  }
  EXPECT_EQ(leftovers, 0U);
  std::filesystem::remove(path);
}

TEST(File, ReadsOutsideTheFileAreRefused) {
  const auto path = TempPath("read");
  WriteFileAtomically(path, "0123456789");
  const ReadOnlyFile file(path);
  std::vector<uint8_t> out(4);
  file.ReadAt(6, out);
  EXPECT_EQ(out[3], '9');
  EXPECT_THROW(file.ReadAt(7, out), Error);
  EXPECT_THROW(file.ReadAt(UINT64_MAX, out), Error);
  { std::ofstream(path) << "short"; }
  EXPECT_THROW(file.ReadAt(6, out), Error);
  EXPECT_THROW(file.CheckUnchanged(), Error);
  EXPECT_THROW(ReadWholeFile(path, 2), Error);
  EXPECT_THROW(ReadOnlyFile("/no/such/file"), Error);
  std::filesystem::remove(path);
}

TEST(Json, HostileTextIsRefused) {
  EXPECT_EQ(ParseJson(R"({"a":[1,2]})", "t")["a"][1], 2);
  EXPECT_THROW(ParseJson("{", "t"), Error);
  EXPECT_THROW(ParseJson(R"({"a":1,"a":2})", "t"), Error);
  EXPECT_THROW(ParseJson(std::string(100000, '['), "t"), Error);
  EXPECT_THROW(ParseJson("\"\xff\"", "t"), Error);
  EXPECT_NO_THROW(ParseJson(R"("[[[[\"[[[[")", "t", 1));
}

}  // namespace
}  // namespace kvant
