// SPDX-License-Identifier: Apache-2.0
// What streams of other ranks still do with memory that this rank may touch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partita/cuda/access.hpp"
#include "partita/cuda/line.hpp"

namespace partita::detail {

/// Accesses by other ranks' streams, each over at a point of its line. They cost a wait where this rank touches the
/// same memory before it has learned of that point otherwise, and nothing where it does not.
class CudaDebts {
 public:
  struct Debt {
    CudaAccess access;
    CudaPoint until;
    bool noted = false;  // by whoever keeps account of what the streams have waited for
  };

  explicit CudaDebts(int lines) : latest_(static_cast<std::size_t>(lines)) {}

  void add(const CudaAccess& access, const CudaPoint& until) {
    if (access.empty() || until.number == 0) return;
    for (Debt& debt : debts_) {
      if (debt.access == access && debt.until.line == until.line) {
        debt = {access, until, false};
        return;
      }
    }
    debts_.push_back({access, until, false});
  }
  /// Lets `line` wait for all that conflicts with one of the accesses, once for each stream of another rank; for that
  /// of the line `but` it need not.
  void settle(CudaLine& line, std::span<const CudaAccess> accesses, int but = -1) {
    if (debts_.empty()) return;
    std::fill(latest_.begin(), latest_.end(), nullptr);
    for (const Debt& debt : debts_) {
      if (debt.until.line == but) continue;
      const Debt*& latest = latest_[static_cast<std::size_t>(debt.until.line)];
      if (latest != nullptr && latest->until.number >= debt.until.number) continue;
      const auto meets = [&debt](const CudaAccess& access) { return conflict(debt.access, access); };
      if (std::any_of(accesses.begin(), accesses.end(), meets)) latest = &debt;
    }
    for (const Debt* debt : latest_) {
      if (debt != nullptr) line.wait(debt->until);
    }
  }
  /// Calls f(debt), which may note it, and takes out those that it says are over.
  template <class F>
  void forget_if(F f) {
    std::erase_if(debts_, f);
  }
  [[nodiscard]] std::size_t size() const noexcept { return debts_.size(); }

 private:
  std::vector<Debt> debts_;
  std::vector<const Debt*> latest_;  // of each line, while it is looked for
};

}  // namespace partita::detail
