// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks of a node can read: one shared window, of which each rank hands out its own segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "partita/comm/concepts.hpp"
#include "partita/comm/mpi/bell.hpp"
#include "partita/comm/mpi/library.hpp"

namespace partita::detail {

/// The segments of a node's ranks, as this rank sees them:
///
///   window   | segment of node rank 0 | segment of node rank 1 | ...      base(r): where r's begins in this process
///   segment  | bell | what is handed out ... |
///
/// A place in a segment is told to a peer as an offset from its beginning. Pages are taken when they are first touched.
class MpiArena {
 public:
  static constexpr std::size_t alignment = 64;

  /// Collective over `node`. Without memory for the window ready() is false on all its ranks.
  MpiArena(MPI_Comm node, std::size_t bytes) {
    int size = 0;
    mpi_check(MPI_Comm_rank(node, &rank_), "MPI_Comm_rank");
    mpi_check(MPI_Comm_size(node, &size), "MPI_Comm_size");
    if (size < 2 || bytes == 0) return;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    void* own = nullptr;
    const std::size_t room = bytes / alignment * alignment;
    const auto length = static_cast<MPI_Aint>(sizeof(MpiBell) + room + alignment);
    const int made = MPI_Win_allocate_shared(length, 1, info, node, static_cast<void*>(&own), &window_);
    MPI_Info_free(&info);
    int all_made = made == MPI_SUCCESS ? 1 : 0;
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &all_made, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
    if (all_made == 0) return;
    mpi_check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_), "MPI_Win_lock_all");
    for (int r = 0; r < size; ++r) {
      MPI_Aint segment = 0;
      int unit = 0;
      void* base = nullptr;
      mpi_check(MPI_Win_shared_query(window_, r, &segment, &unit, static_cast<void*>(&base)), "MPI_Win_shared_query");
      bases_.push_back(static_cast<std::byte*>(base));
    }
    ::new (static_cast<void*>(&bell(rank_))) MpiBell;
    const std::size_t first = first_place(rank_) + sizeof(MpiBell);
    free_.emplace(first, room);
    size_ = first + room;
    mpi_check(MPI_Barrier(node), "MPI_Barrier");  // all bells hang
  }
  MpiArena(const MpiArena&) = delete;
  MpiArena& operator=(const MpiArena&) = delete;

  [[nodiscard]] bool ready() const noexcept { return !bases_.empty(); }
  [[nodiscard]] std::byte* base(int node_rank) const noexcept { return bases_[static_cast<std::size_t>(node_rank)]; }
  [[nodiscard]] MpiBell& bell(int node_rank) const noexcept {
    return *std::launder(reinterpret_cast<MpiBell*>(base(node_rank) + first_place(node_rank)));
  }
  void ring_all() const noexcept {
    for (std::size_t r = 0; r < bases_.size(); ++r) bell(static_cast<int>(r)).ring();
  }

  /// From now on nothing is handed out twice: peers of a failed world may still read and write what they know of.
  void freeze() noexcept { frozen_ = true; }

  /// Collective over the node. What was handed out is gone.
  void close() noexcept {
    if (window_ == MPI_WIN_NULL) return;
    if (ready()) MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    bases_.clear();
    free_.clear();
  }

  /// Local. Null where no run of the segment is long enough.
  [[nodiscard]] std::byte* take(std::size_t bytes) {
    const std::size_t length = rounded(bytes);
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < length) continue;
      const auto [offset, run] = *at;
      const auto after = free_.erase(at);
      if (run > length) free_.emplace_hint(after, offset + length, run - length);
      return base(rank_) + offset;
    }
    return nullptr;
  }

  /// Local: gives back what take(bytes) gave.
  void give(const std::byte* data, std::size_t bytes) {
    if (!ready() || frozen_) return;
    auto offset = static_cast<std::size_t>(data - base(rank_));
    std::size_t length = rounded(bytes);
    const auto after = free_.lower_bound(offset);
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        length += before->second;
        free_.erase(before);
      }
    }
    if (after != free_.end() && offset + length == after->first) {
      length += after->second;
      free_.erase(after);
    }
    free_.emplace(offset, length);
  }

  /// Where [data, data + bytes) begins in this rank's segment, if it lies there.
  [[nodiscard]] std::optional<index_t> offset_of(const void* data, std::size_t bytes) const noexcept {
    if (!ready()) return std::nullopt;
    const auto* first = static_cast<const std::byte*>(data);
    const std::byte* begin = base(rank_);
    const std::less<const std::byte*> before;
    if (before(first, begin) || before(begin + size_, first + bytes)) return std::nullopt;
    return static_cast<index_t>(first - begin);
  }

 private:
  /// Of a segment, where what is aligned can stand. They are mapped by pages, so that all ranks find the same.
  [[nodiscard]] std::size_t first_place(int node_rank) const noexcept {
    const auto misfit = reinterpret_cast<std::uintptr_t>(base(node_rank)) % alignment;
    return misfit == 0 ? 0 : alignment - misfit;
  }
  [[nodiscard]] static std::size_t rounded(std::size_t bytes) noexcept {
    if (bytes > std::numeric_limits<std::size_t>::max() - alignment) return std::numeric_limits<std::size_t>::max();
    return (bytes + alignment - 1) / alignment * alignment;
  }

  int rank_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t size_ = 0;
  bool frozen_ = false;
  std::vector<std::byte*> bases_;
  std::map<std::size_t, std::size_t> free_;  // offset, length; runs never touch each other
};

/// A block of an arena, or plain memory where it has no room. The record is this process's own.
struct MpiBlock {
  std::shared_ptr<MpiArena> arena;  // null: plain memory
  std::size_t bytes = 0;

  static void free(void* data, void* owner) {
    const std::unique_ptr<MpiBlock> block(static_cast<MpiBlock*>(owner));
    if (block->arena == nullptr) {
      ::operator delete(data, std::align_val_t{MpiArena::alignment});
    } else {
      block->arena->give(static_cast<const std::byte*>(data), block->bytes);
    }
  }
};

/// From the arena; null where it has no room.
[[nodiscard]] inline Memory allocate_shared(const std::shared_ptr<MpiArena>& arena, std::size_t bytes) {
  if (arena == nullptr || !arena->ready() || bytes == 0) return {};
  auto block = std::make_unique<MpiBlock>(arena, bytes);
  std::byte* data = arena->take(bytes);
  if (data == nullptr) return {};
  return Memory(data, MemoryDeleter{&MpiBlock::free, block.release()});
}

/// From the arena or, failing that, of this process alone. Throws CapacityError.
[[nodiscard]] inline Memory allocate_mpi(const std::shared_ptr<MpiArena>& arena, int rank, std::size_t bytes) {
  if (Memory shared = allocate_shared(arena, bytes)) return shared;
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  void* data = nullptr;
  if (bytes <= most) data = ::operator new(bytes, std::align_val_t{MpiArena::alignment}, std::nothrow);
  if (data == nullptr) {
    throw CapacityError("CapacityError: rank " + std::to_string(rank) + " asked for " + std::to_string(bytes) +
                        " bytes and cannot have them; use more ranks, or smaller blocks");
  }
  return Memory(static_cast<std::byte*>(data), MemoryDeleter{&MpiBlock::free, new MpiBlock{nullptr, bytes}});
}

}  // namespace partita::detail
