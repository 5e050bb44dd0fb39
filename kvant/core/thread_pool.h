// A fixed set of worker threads for data-parallel loops.
#pragma once

#include <condition_variable>
#include <cstddef>
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
  void RunIndices(size_t worker);

  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable work_done_;
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t count_ = 0;
  size_t next_ = 0;  // guarded by atomic access through std::atomic_ref
  size_t running_ = 0;
  size_t generation_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace kvant
