// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a node tell each other, in shared memory, which panels they lend.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "partita/base/config.hpp"

namespace partita::detail {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "ranks of a node meet in shared memory");

/// A panel that a rank lends to the other ranks of its node.
///
///   owner   free ----- describes, posts number + 1 -----> posted
///   peers              read in place, each adds to `released`; the last one resets it, and `posted` to 0: free
struct alignas(64) PanelSlot {
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> released{0};
  index_t offset = -1;  // in the owner's segment; negative: it does not lie there, and comes as a message
  index_t rows = 0;
  index_t cols = 0;
  index_t ld = 0;
};

/// One communicator's ranks of one node. Panels are numbered, and number k uses slot k mod `slots`.
struct PanelBoard {
  static constexpr std::uint64_t slots = 64;
  std::array<PanelSlot, slots> slot;
  std::atomic<std::uint64_t> left{0};  // ranks that no longer use the board
};

/// One rank's hold on a board.
class PanelBoardHandle {
 public:
  PanelBoardHandle() = default;

  /// `members`: ranks of the communicator in this node.
  void join(PanelBoard* board, int members) {
    reading_.reserve(PanelBoard::slots + 1);
    board_ = board;
    peers_ = static_cast<std::uint64_t>(members - 1);
  }
  [[nodiscard]] explicit operator bool() const noexcept { return board_ != nullptr; }

  /// As owner. Whether the slot of panel `number` is free: its last panel is released by all, by this rank too.
  [[nodiscard]] bool free(std::uint64_t number) const noexcept {
    const auto same_slot = [number](std::uint64_t n) { return (number - n) % PanelBoard::slots == 0; };
    return std::none_of(reading_.begin(), reading_.end(), same_slot) &&
           slot(number).posted.load(std::memory_order_acquire) == 0;
  }
  void post(std::uint64_t number, index_t offset, index_t rows, index_t cols, index_t ld) noexcept {
    PanelSlot& s = slot(number);
    s.offset = offset;
    s.rows = rows;
    s.cols = cols;
    s.ld = ld;
    s.posted.store(number + 1, std::memory_order_release);
  }
  [[nodiscard]] bool released(std::uint64_t number) const noexcept {
    return slot(number).posted.load(std::memory_order_acquire) != number + 1;
  }

  /// Whether this rank still reads a panel that long ago; its slot could never be free for the next.
  [[nodiscard]] bool lags(std::uint64_t next) const noexcept {
    return std::any_of(reading_.begin(), reading_.end(), [next](auto n) { return next - n >= PanelBoard::slots; });
  }
  /// As peer: from the call that asks for the panel to its release.
  void expect(std::uint64_t number) { reading_.push_back(number); }
  [[nodiscard]] const PanelSlot* find(std::uint64_t number) const noexcept {
    const PanelSlot& s = slot(number);
    return s.posted.load(std::memory_order_acquire) == number + 1 ? &s : nullptr;
  }
  /// True for the last one: then the slot is free, and its owner may wait for that.
  bool release(std::uint64_t number) noexcept {
    std::erase(reading_, number);
    PanelSlot& s = slot(number);
    if (s.released.fetch_add(1, std::memory_order_acq_rel) + 1 != peers_) return false;
    s.released.store(0, std::memory_order_relaxed);
    s.posted.store(0, std::memory_order_release);
    return true;
  }

  /// This rank uses the board no longer; it may be freed when all have left.
  void leave() noexcept {
    if (board_ != nullptr) board_->left.fetch_add(1, std::memory_order_acq_rel);
    board_ = nullptr;
  }

 private:
  [[nodiscard]] PanelSlot& slot(std::uint64_t number) const noexcept {
    return board_->slot[number % PanelBoard::slots];
  }

  PanelBoard* board_ = nullptr;
  std::uint64_t peers_ = 0;
  std::vector<std::uint64_t> reading_;
};

}  // namespace partita::detail
