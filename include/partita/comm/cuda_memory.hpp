// SPDX-License-Identifier: Apache-2.0
// Device memory as communicators give it to contexts.
#pragma once

#include <memory>

#include "partita/comm/concepts.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita::detail {

/// Device memory, there for all work that the timeline orders after this call; freed in the timeline's order too, so
/// that it may go while work on it is under way. Throws CapacityError.
[[nodiscard]] inline Memory allocate_on_device(const std::shared_ptr<CudaTimeline>& timeline, std::size_t bytes) {
  if (bytes == 0) return Memory(nullptr, MemoryDeleter{});
  struct Owner {
    std::shared_ptr<CudaTimeline> timeline;
    std::size_t bytes;
  };
  auto owner = std::make_unique<Owner>(Owner{timeline, bytes});
  void* const data = timeline->allocate(bytes);
  const auto free = [](void* memory, void* of) {
    const std::unique_ptr<Owner> last(static_cast<Owner*>(of));
    last->timeline->free(memory, last->bytes);
  };
  return Memory(static_cast<std::byte*>(data), MemoryDeleter{free, owner.release()});
}

}  // namespace partita::detail
