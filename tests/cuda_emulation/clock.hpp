// SPDX-License-Identifier: Apache-2.0
// Vector clocks: what is known to have happened, one counter for each stream and each host thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita::cuda_emulation {

/// A point in one stream's or thread's history.
struct Epoch {
  std::size_t slot = 0;
  std::uint64_t tick = 0;
};

class Clock {
 public:
  [[nodiscard]] std::uint64_t at(std::size_t slot) const { return slot < ticks_.size() ? ticks_[slot] : 0; }
  [[nodiscard]] bool covers(Epoch e) const { return at(e.slot) >= e.tick; }

  void set(Epoch e) {
    if (e.slot >= ticks_.size()) ticks_.resize(e.slot + 1);
    ticks_[e.slot] = e.tick;
  }
  void join(const Clock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

}  // namespace partita::cuda_emulation
