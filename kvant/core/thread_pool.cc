#include "kvant/core/thread_pool.h"

#include <atomic>
#include <exception>

#include "kvant/core/error.h"

namespace kvant {

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

void ThreadPool::ParallelFor(size_t count,
                             const std::function<void(size_t, size_t)>& body) {
  if (count == 0) return;
  if (threads_.empty() || count == 1) {
    for (size_t index = 0; index < count; ++index) body(index, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    next_ = 0;
    running_ = threads_.size();
    failure_ = nullptr;
    ++generation_;
  }
  work_ready_.notify_all();
  RunIndices(0);
  std::unique_lock lock(mutex_);
  work_done_.wait(lock, [this] { return running_ == 0; });
  body_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

void ThreadPool::RunIndices(size_t worker) {
  std::atomic_ref<size_t> next(next_);
  for (;;) {
    const size_t index = next.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) return;
    try {
      (*body_)(index, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next.store(count_, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::WorkerLoop(size_t worker) {
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [&] { return stopping_ || generation_ != seen; });
    if (stopping_) return;
    seen = generation_;
    lock.unlock();
    RunIndices(worker);
    lock.lock();
    if (--running_ == 0) work_done_.notify_one();
  }
}

}  // namespace kvant
