// SPDX-License-Identifier: Apache-2.0
// How a rank waits without taking the cores from those that compute.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "partita/base/error.hpp"
#include "partita/comm/mpi/bell.hpp"

namespace partita::detail {

/// One wait: a while of looking again and giving way, then sleep. A rank that gives way and comes back late has made
/// room for one that works, and every further look would cost that one a part of its time: so it sleeps at once, until
/// a peer rings. While messages are under way nobody rings, and it looks again after a short sleep.
class MpiPatience {
 public:
  using Clock = std::chrono::steady_clock;

  MpiPatience(std::chrono::milliseconds deadline, int ranks_per_core) noexcept
      : deadline_(deadline), crowded_(ranks_per_core > 1), late_(std::chrono::microseconds(25) * ranks_per_core) {}

  /// Whether it is time to look for news that do not ring.
  [[nodiscard]] bool wants_to_listen() noexcept { return sleeps_ || ++round_ % 16 == 0; }

  /// Gives way, or sleeps: by `bell`, which had rung `heard` times before this rank last looked, or without one for a
  /// short while. Throws TimeoutError at the deadline.
  void pause(const char* name, MpiBell* bell, std::uint32_t heard) {
    if (!crowded_ && round_ < spins) return relax();
    if (sleeps_) {
      sleep(name, bell, heard);
      return;
    }
    if (begun_ == Clock::time_point{}) begun_ = looked_ = Clock::now();
    sched_yield();
    const auto now = Clock::now();
    sleeps_ = now - looked_ > late_ || now - begun_ > long_enough;
    looked_ = now;
  }

 private:
  static constexpr int spins = 200;
  static constexpr auto long_enough = std::chrono::microseconds(500);
  static constexpr long with_bell = 2000;   // microseconds: how late news that do not ring may be heard
  static constexpr long without_bell = 50;  // likewise, where all news come so

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  void sleep(const char* name, MpiBell* bell, std::uint32_t heard) {
    if (bell != nullptr) {
      bell->sleep(heard, with_bell);
    } else {
      ::usleep(without_bell);
    }
    if (Clock::now() - begun_ <= deadline_) return;
    throw TimeoutError(std::string("TimeoutError: ") + name + " is not complete after " +
                       std::to_string(deadline_.count()) +
                       " ms; a peer has not entered it, or the deadline is too short");
  }

  std::chrono::milliseconds deadline_;
  bool crowded_;
  std::chrono::microseconds late_;  // longer than a turn of ranks that all wait
  bool sleeps_ = false;
  int round_ = 0;
  Clock::time_point begun_{};
  Clock::time_point looked_{};
};

}  // namespace partita::detail
