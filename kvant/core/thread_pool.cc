#include "kvant/core/thread_pool.h"

#include <chrono>
#include <utility>

#include "kvant/core/error.h"

namespace kvant {

namespace {

// How long a thread spins before it blocks: longer than the gaps between the loops of one token,
// shorter than what anybody notices of a core that is not idle yet.
constexpr auto kSpin = std::chrono::microseconds(50);
// Looks at the clock once per so many looks at the condition.
constexpr int kLooksPerClock = 64;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// True as soon as condition() holds, false if it did not within kSpin.
template <typename Condition>
bool SpinUntil(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (condition()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(size_t num_threads) {
  KVANT_CHECK(num_threads >= 1);
  threads_.reserve(num_threads - 1);
  for (size_t worker = 1; worker < num_threads; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(size_t count, const std::function<void(size_t, size_t)>& body) {
  if (count == 0) return;
  if (threads_.empty() || count == 1) {
    for (size_t index = 0; index < count; ++index) body(index, 0);
    return;
  }
  body_ = &body;
  count_ = count;
  unfinished_ = count;
  unclaimed_ = static_cast<int64_t>(count);  // publishes all of the above
  // A worker counts itself as sleeping before it looks at unclaimed_ for the last time, so one of
  // the two sees the other.
  if (sleeping_workers_ > 0) {
    const std::lock_guard lock(mutex_);
    work_ready_.notify_all();
  }
  RunIndices(0);
  AwaitDone();
  body_ = nullptr;
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::RunIndices(size_t worker) {
  for (;;) {
    const int64_t left = unclaimed_.fetch_sub(1);
    if (left <= 0) return;
    RunIndex(count_ - static_cast<size_t>(left), worker);
  }
}

void ThreadPool::RunIndex(size_t index, size_t worker) {
  size_t finished = 1;
  try {
    (*body_)(index, worker);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    const int64_t dropped = unclaimed_.exchange(0);
    if (dropped > 0) finished += static_cast<size_t>(dropped);
  }
  if (unfinished_.fetch_sub(finished) == finished && caller_sleeps_) {
    const std::lock_guard lock(mutex_);
    work_done_.notify_one();
  }
}

bool ThreadPool::AwaitWork() {
  const auto ready = [this] { return stopping_ || unclaimed_ > 0; };
  if (!SpinUntil(ready)) {
    std::unique_lock lock(mutex_);
    ++sleeping_workers_;
    work_ready_.wait(lock, ready);
    --sleeping_workers_;
  }
  return !stopping_;
}

void ThreadPool::AwaitDone() {
  const auto done = [this] { return unfinished_ == 0; };
  if (SpinUntil(done)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  work_done_.wait(lock, done);
  caller_sleeps_ = false;
}

void ThreadPool::WorkerLoop(size_t worker) {
  while (AwaitWork()) RunIndices(worker);
}

}  // namespace kvant
