// SPDX-License-Identifier: Apache-2.0
// What the machine leaves to be won in a layout: its local products, run without the library.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "../support/contest.hpp"
#include "../support/noted.hpp"

namespace bench {

/// The BLAS calls of a distributed product, and nothing else: each core runs those of its ranks, one rank after the
/// other, from the same operands; then the cores meet. No rank waits for another, nothing is summed over ranks, no
/// result is cleared. Pre: ranks are threads, bound to cores in turn.
///
///   core 0   rank 0's calls, rank 2's calls, ... |      core 1   rank 1's calls, rank 3's calls, ... |
class BareProducts final : public Work {
 public:
  /// Collective. `product` is run twice, and kept for its operands.
  BareProducts(Team& team, int cores, std::unique_ptr<Work> product)
      : rank_(team.rank()), cores_(std::min(cores, team.size())), product_(std::move(product)) {
    std::shared_ptr<Shared> made;
    if (rank_ == 0) made = std::make_shared<Shared>(team.size());
    shared_ = *static_cast<const std::shared_ptr<Shared>*>(team.share(&made, sizeof made));
    product_->run();
    {
      const Noting noting(shared_->ranks[static_cast<std::size_t>(rank_)]);
      product_->run();
    }
    team.sync();
  }

  void run() override {
    if (rank_ >= cores_) return;
    for (auto r = static_cast<std::size_t>(rank_); r < shared_->ranks.size(); r += static_cast<std::size_t>(cores_)) {
      shared_->ranks[r].run();
    }
    meetings_ += cores_;
    shared_->arrived.fetch_add(1);
    while (shared_->arrived.load() < meetings_) std::this_thread::yield();
  }
  [[nodiscard]] bool equals(const void*) const override { return true; }

 private:
  struct Shared {
    explicit Shared(int size) : ranks(static_cast<std::size_t>(size)) {}
    std::vector<NotedProducts> ranks;
    std::atomic<long> arrived{0};
  };

  int rank_;
  int cores_;
  std::unique_ptr<Work> product_;
  std::shared_ptr<Shared> shared_;
  long meetings_ = 0;
};

}  // namespace bench
