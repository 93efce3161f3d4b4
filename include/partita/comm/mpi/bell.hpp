// SPDX-License-Identifier: Apache-2.0
// Where a rank sleeps in the shared memory of its node, and how its peers wake it.
#pragma once

#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include <atomic>
#include <cstdint>

namespace partita::detail {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "ranks of a node meet in shared memory");

/// One rank's bell. Whoever changes what the rank may wait for changes it first and then rings.
///
/// No wake-up is lost: the sleeper reads `rung` before it looks at what it waits for, raises `asleep`, and sleeps only
/// while `rung` is what it read; the one who rings raises `rung` and then looks at `asleep`. All four accesses are
/// sequentially consistent.
struct alignas(64) MpiBell {
  std::atomic<std::uint32_t> rung{0};
  std::atomic<std::uint32_t> asleep{0};

  void ring() noexcept {
    rung.fetch_add(1);
    if (asleep.load() == 0) return;
#if defined(__linux__)
    static_cast<void>(::syscall(SYS_futex, &rung, FUTEX_WAKE, 1, nullptr, nullptr, 0));
#endif
  }

  /// Returns when the bell has been rung since `heard` was read, after `microseconds`, or for no reason. Elsewhere than
  /// on Linux it looks again after a short while.
  void sleep(std::uint32_t heard, long microseconds) noexcept {
#if defined(__linux__)
    const timespec limit{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
    asleep.store(1);
    if (rung.load() == heard) {
      static_cast<void>(::syscall(SYS_futex, &rung, FUTEX_WAIT, heard, &limit, nullptr, 0));
    }
    asleep.store(0);
#else
    if (rung.load() == heard) ::usleep(static_cast<useconds_t>(microseconds < 100 ? microseconds : 100));
#endif
  }
};

}  // namespace partita::detail
