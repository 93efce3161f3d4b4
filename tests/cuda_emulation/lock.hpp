// SPDX-License-Identifier: Apache-2.0
// How a thread enters and leaves the machine.
#pragma once

#include <condition_variable>
#include <mutex>

#include "cuda_emulation/sanitizer.hpp"

namespace partita::cuda_emulation {

/// Holds the machine's mutex. Who holds it is hidden from the thread sanitizer: what passes through the machine is
/// known to it only as edges.
class Lock {
 public:
  explicit Lock(std::mutex& mutex) : held_(mutex, std::defer_lock) { lock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() {
    if (held_.owns_lock()) unlock();
  }

  void lock() {
    sanitizer::hide();
    held_.lock();
  }
  void unlock() {
    held_.unlock();
    sanitizer::show();
  }
  template <class Ready>
  void wait(std::condition_variable& wake, Ready ready) {
    wake.wait(held_, ready);
  }

 private:
  std::unique_lock<std::mutex> held_;
};

}  // namespace partita::cuda_emulation
