// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a node show each other, in shared memory, what they bring to a collective.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "partita/base/config.hpp"

namespace partita::detail {

/// What one member brings. Places are offsets in its segment.
struct MeetingPost {
  static constexpr index_t nowhere = -1;

  index_t kind = 0;
  index_t rows = 0;
  index_t cols = 0;
  index_t in = 0;
  index_t in_ld = 0;
  index_t out = 0;
  index_t out_ld = 0;
  index_t value = 0;
};

/// The meetings of one communicator whose members all share memory. They are numbered, and number k uses slot
/// k mod `slots`, whose counters only grow:
///
///   arrived   members that have posted           in the r-th use of the slot both reach r·members; then all is shown,
///   done      members that are through with it   or over, and the slot is free for number k + slots
///   root      1 + the last number that its root is through with
class MeetingBoard {
 public:
  static constexpr std::uint64_t slots = 32;

  [[nodiscard]] static std::size_t bytes(int members) noexcept {
    return slots * (sizeof(Slot) + static_cast<std::size_t>(members) * sizeof(MeetingPost));
  }
  static void make(std::byte* memory, int members) noexcept {
    MeetingBoard board;
    board.join(memory, members);
    for (std::uint64_t s = 0; s < slots; ++s) ::new (static_cast<void*>(board.slots_ + s)) Slot;
    const std::uint64_t posts = slots * board.members_;
    for (std::uint64_t i = 0; i < posts; ++i) ::new (static_cast<void*>(board.posts_ + i)) MeetingPost;
  }

  void join(std::byte* memory, int members) noexcept {
    slots_ = reinterpret_cast<Slot*>(memory);
    posts_ = reinterpret_cast<MeetingPost*>(memory + slots * sizeof(Slot));
    members_ = static_cast<std::uint64_t>(members);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return slots_ != nullptr; }

  /// Whether all are through with the last use of the slot.
  [[nodiscard]] bool free(std::uint64_t number) const noexcept {
    return slot(number).done.load(std::memory_order_acquire) == full(number) - members_;
  }
  /// Pre: free(number). True for the last one.
  bool arrive(std::uint64_t number, int member, const MeetingPost& post) noexcept {
    posts_[index(number, member)] = post;
    return slot(number).arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == full(number);
  }
  [[nodiscard]] bool all_arrived(std::uint64_t number) const noexcept {
    return slot(number).arrived.load(std::memory_order_acquire) == full(number);
  }
  /// Pre: all have arrived, and this member has not left.
  [[nodiscard]] const MeetingPost& post(std::uint64_t number, int member) const noexcept {
    return posts_[index(number, member)];
  }
  /// This member touches nothing of the others any more. True for the last one.
  bool leave(std::uint64_t number, bool as_root) noexcept {
    if (as_root) slot(number).root.store(number + 1, std::memory_order_release);
    return slot(number).done.fetch_add(1, std::memory_order_acq_rel) + 1 == full(number);
  }
  [[nodiscard]] bool root_has_left(std::uint64_t number) const noexcept {
    return slot(number).root.load(std::memory_order_acquire) > number;
  }
  [[nodiscard]] bool over(std::uint64_t number) const noexcept {
    return slot(number).done.load(std::memory_order_acquire) >= full(number);
  }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> arrived{0};
    alignas(64) std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> root{0};
  };

  [[nodiscard]] Slot& slot(std::uint64_t number) const noexcept { return slots_[number % slots]; }
  [[nodiscard]] std::uint64_t full(std::uint64_t number) const noexcept { return (number / slots + 1) * members_; }
  [[nodiscard]] std::size_t index(std::uint64_t number, int member) const noexcept {
    return number % slots * members_ + static_cast<std::size_t>(member);
  }

  Slot* slots_ = nullptr;
  MeetingPost* posts_ = nullptr;
  std::uint64_t members_ = 0;
};

}  // namespace partita::detail
