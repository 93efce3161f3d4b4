// SPDX-License-Identifier: Apache-2.0
// Runs functions on a thread that may use every core of the process, whatever its ranks are pinned to.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace bench {

/// The number of cores on which this process may run.
[[nodiscard]] inline int core_count() {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Made before any rank is pinned: the thread keeps the cores that its maker had.
class AllCores {
 public:
  AllCores() : count_(core_count()), thread_([this] { serve(); }) {}
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;
  ~AllCores() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  [[nodiscard]] int count() const noexcept { return count_; }

  /// Returns when f has run; the caller sleeps meanwhile. f must not throw.
  void run(const std::function<void()>& f) {
    std::unique_lock lock(mutex_);
    task_ = &f;
    changed_.notify_all();
    changed_.wait(lock, [this] { return task_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || task_ != nullptr; });
      if (ends_) return;
      (*task_)();
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;
  bool ends_ = false;
  int count_;
  std::thread thread_;
};

}  // namespace bench
