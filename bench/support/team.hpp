// SPDX-License-Identifier: Apache-2.0
// The ranks that measure together, and how they keep out of each other's way.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace bench {

/// Seconds on a clock that all ranks of a machine share.
[[nodiscard]] inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Team {
 public:
  Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  virtual ~Team() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void sync() = 0;
  /// Rank 0 runs f; the others sleep until it has.
  virtual void alone(const std::function<void()>& f) = 0;
  /// The bytes at `data` of rank 0, readable on all ranks until the next call. The others pass null.
  [[nodiscard]] virtual const void* share(const void* data, std::size_t bytes) = 0;
  /// The largest of the ranks' values, on all ranks.
  [[nodiscard]] virtual double greatest(double value) = 0;

  [[nodiscard]] double least(double value) { return -greatest(-value); }
  /// The value that rank 0 has, on all ranks. Pre: the others' are 0, rank 0's is not negative.
  [[nodiscard]] double from_first(double value) { return greatest(rank() == 0 ? value : 0); }
};

/// What the threads of one launch share.
struct ThreadTeamState {
  explicit ThreadTeamState(int ranks) : barrier(ranks), values(static_cast<std::size_t>(ranks)) {}
  std::barrier<> barrier;
  std::vector<double> values;
  const void* shared = nullptr;
};

class ThreadTeam final : public Team {
 public:
  ThreadTeam(ThreadTeamState& state, int rank) : state_(state), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(state_.values.size()); }
  void sync() override { state_.barrier.arrive_and_wait(); }
  void alone(const std::function<void()>& f) override {
    sync();
    if (rank_ == 0) f();
    sync();
  }
  [[nodiscard]] const void* share(const void* data, std::size_t) override {
    if (rank_ == 0) state_.shared = data;
    sync();
    const void* shared = state_.shared;
    sync();
    return shared;
  }
  [[nodiscard]] double greatest(double value) override {
    state_.values[static_cast<std::size_t>(rank_)] = value;
    sync();
    const double most = *std::max_element(state_.values.begin(), state_.values.end());
    sync();
    return most;
  }

 private:
  ThreadTeamState& state_;
  int rank_;
};

}  // namespace bench
