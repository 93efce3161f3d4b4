// SPDX-License-Identifier: Apache-2.0
// Memory of the user's own in which a context's blocks stand; that of devices is in support/device_memory.hpp.
#pragma once

#include <vector>

#include "support/test_ranks.hpp"

namespace partita::test {

/// `count` elements that are `value`.
template <class T, class Ctx, bool OnHost = host_memory_v<typename Ctx::backend_type>>
class UserMemory {
 public:
  UserMemory(Ctx&, index_t count, T value) : elements_(static_cast<std::size_t>(count), value) {}
  [[nodiscard]] T* data() noexcept { return elements_.data(); }
  [[nodiscard]] View<T> row() noexcept { return row_view(data(), static_cast<index_t>(elements_.size())); }

 private:
  std::vector<T> elements_;
};

}  // namespace partita::test
