// SPDX-License-Identifier: Apache-2.0
// Which tensors share memory: a fact on which all ranks agree, though blocks may overlap on some of them only.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "partita/base/config.hpp"

namespace partita {

/// A tensor's own number, the same on all ranks, and the numbers of the tensors whose memory its own overlapped on some
/// rank when it was made.
struct MemoryIdentity {
  index_t own = 0;
  std::shared_ptr<const std::vector<index_t>> overlapped;  // null: none

  [[nodiscard]] bool shares_memory_with(const MemoryIdentity& other) const noexcept {
    const auto lists = [](const MemoryIdentity& x, index_t number) {
      return x.overlapped != nullptr &&
             std::find(x.overlapped->begin(), x.overlapped->end(), number) != x.overlapped->end();
    };
    return own == other.own || lists(*this, other.own) || lists(other, own);
  }
};

namespace detail {

/// The identity of a tensor over memory that is the user's, and may be another tensor's too.
/// Communicates: an agreement, and one more for each tensor that the memory overlaps.
template <class Ctx>
[[nodiscard]] MemoryIdentity identify(Ctx& context, const void* data, std::size_t bytes) {
  std::vector<index_t> found;
  index_t bound = std::numeric_limits<index_t>::max();
  while (true) {
    bound = context.comm().agree(context.identity_at(data, bytes, bound));
    if (bound <= 0) break;
    found.push_back(bound);
  }
  MemoryIdentity identity{context.next_identity(), nullptr};
  if (!found.empty()) identity.overlapped = std::make_shared<const std::vector<index_t>>(std::move(found));
  return identity;
}

}  // namespace detail
}  // namespace partita
