// SPDX-License-Identifier: Apache-2.0
// Memory that threads of one launch may reach, and that outlives a peer still reading it.
#pragma once

#include <limits>
#include <new>
#include <string>

#include "partita/comm/thread/group.hpp"

namespace partita::detail {

/// Stands in front of each block; as long as a cache line, so that the block is aligned to one.
struct alignas(cache_line) BlockHeader {
  std::shared_ptr<World> world;
  int rank = 0;
  BlockHeader* next = nullptr;
};

inline void free_now(BlockHeader* header) noexcept {
  header->~BlockHeader();
  ::operator delete(static_cast<void*>(header), std::align_val_t{cache_line});
}

/// Forgets the loans that all peers have released.
inline void prune_loans(RankState& me) noexcept {
  std::erase_if(me.lent, [](const Loan& loan) { return loan.endpoint->group->all_done(loan.ticket); });
}

/// Peers may read the block until they are done with the operation, which is about to be published.
inline void open_loan(const std::shared_ptr<Endpoint>& end, Operation& o, Rectangle block) {
  o.post.in = block;
  prune_loans(*end->me);
  end->me->lent.push_back({end, o.ticket});
}

inline void World::reclaim(int r) noexcept {
  BlockHeader* first = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::swap(first, rank(r).quarantine);
  }
  while (first != nullptr) free_now(std::exchange(first, first->next));
}

inline World::~World() {
  for (int r = 0; r < size(); ++r) reclaim(r);
}

/// A peer may be reading the block if its rank has panels lent, and may be inside it after a failure; it then waits
/// in quarantine: until a later free of the rank finds nothing lent, or until the launch is joined.
inline void free_block(void* data, void* /*owner*/) noexcept {
  auto* header = reinterpret_cast<BlockHeader*>(static_cast<std::byte*>(data) - sizeof(BlockHeader));
  const std::shared_ptr<World> world = std::move(header->world);
  if (world->joined()) return free_now(header);
  RankState& me = world->rank(header->rank);
  const bool own_thread = me.thread == std::this_thread::get_id();
  if (own_thread) prune_loans(me);
  if (own_thread && me.lent.empty() && !world->failed()) {
    if (me.quarantine != nullptr) world->reclaim(header->rank);
    return free_now(header);
  }
  const std::lock_guard lock(world->mutex());
  header->next = std::exchange(me.quarantine, header);
}

[[nodiscard]] inline Memory allocate_block(const std::shared_ptr<World>& world, int world_rank, std::size_t bytes) {
  constexpr std::size_t most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  void* memory = nullptr;
  if (bytes <= most - sizeof(BlockHeader)) {
    memory = ::operator new(bytes + sizeof(BlockHeader), std::align_val_t{cache_line}, std::nothrow);
  }
  if (memory == nullptr) {
    throw CapacityError("CapacityError: rank " + std::to_string(world_rank) + " asked for " + std::to_string(bytes) +
                        " bytes and cannot have them; use more ranks, or smaller blocks");
  }
  auto* header = ::new (memory) BlockHeader{world, world_rank, nullptr};
  return Memory(reinterpret_cast<std::byte*>(header + 1), MemoryDeleter{&free_block, nullptr});
}

}  // namespace partita::detail
