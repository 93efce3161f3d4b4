// SPDX-License-Identifier: Apache-2.0
// The cores that this process may use, and binding a thread to one of them.
#pragma once

#include <algorithm>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace partita::detail {

/// At least 1. The calling thread's affinity counts where the system has such a thing.
[[nodiscard]] inline int usable_cores() noexcept {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 0) return CPU_COUNT(&allowed);
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Binds the calling thread to core number `rank`, modulo their number, of those that it may use.
inline void pin_this_thread([[maybe_unused]] int rank) noexcept {
#if defined(__linux__)
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0) return;
  int left = rank % CPU_COUNT(&allowed);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
#endif
}

}  // namespace partita::detail
