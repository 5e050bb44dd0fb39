// A fixed set of worker threads for data-parallel loops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvant {

class ThreadPool {
 public:
  // num_threads counts the calling thread, which works too: 1 starts no thread.
  // REQUIRES: num_threads >= 1.
  explicit ThreadPool(size_t num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t num_threads() const { return threads_.size() + 1; }

  // Calls body(index, worker) once for each index in [0, count), worker in [0, num_threads), and
  // returns when all are done. Which worker runs an index is not fixed, so results must not depend
  // on it. The first exception thrown by a body is rethrown here after the loop has drained.
  // REQUIRES: not called from inside a body, nor by two threads at once.
  void ParallelFor(size_t count, const std::function<void(size_t index, size_t worker)>& body);

 private:
  void WorkerLoop(size_t worker);
  // Runs indices until none is left to claim.
  void RunIndices(size_t worker);
  void RunIndex(size_t index, size_t worker);
  // Returns true when there are indices to claim, false when the pool stops. Spins for a moment
  // before it blocks: decoding one token makes hundreds of loops a few microseconds apart.
  bool AwaitWork();
  void AwaitDone();

  // The current loop. A thread that claimed an index may read body_ and count_: they stay until
  // that index is done.
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t count_ = 0;
  std::exception_ptr failure_;  // under mutex_

  std::atomic<int64_t> unclaimed_ = 0;  // indices of the loop; below zero after it, harmlessly
  std::atomic<size_t> unfinished_ = 0;

  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  std::atomic<size_t> sleeping_workers_ = 0;
  std::atomic<bool> caller_sleeps_ = false;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvant
