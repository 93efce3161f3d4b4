// SPDX-License-Identifier: Apache-2.0
// How a panel travels: it is read in the owner's block by the ranks of its node, and sent along a tree of nodes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/arguments.hpp"
#include "partita/comm/mpi/exchange.hpp"

namespace partita::detail {

/// To whom a member passes on a panel that does not lie in shared memory. Nodes form a binomial tree with the root's
/// node at its top; on each other node the lowest member receives, and passes on to child nodes and to its node.
///
/// Not MPI's own broadcast: that would have the readers in place take part and copy, and cannot be given up by one
/// rank. Which of the two is faster over TCP was not to be told on a busy machine. The messages go on whenever a rank
/// begins another operation or waits.
///
///   root  ---->  lowest member of node 1  ---->  lowest member of node 3, its own node's members
///         ---->  lowest member of node 2  ---->  its own node's members
struct PanelRoute {
  using Members = std::vector<int, Pooled<int>>;

  int parent = -1;
  Members children;  // other nodes first

  PanelRoute(const MpiGroup& group, int root) : children(group.world->pooled<int>()) {
    if (group.leaders.size() == 1) return;
    const int own_node = group.node(group.rank);
    Members heads(1, root, children.get_allocator());
    for (const int leader : group.leaders) {
      if (!same_node(group, leader, root)) heads.push_back(leader);
    }
    std::size_t place = 0;
    while (group.node(heads[place]) != own_node) ++place;
    if (heads[place] != group.rank) {  // on the root's node the board serves
      if (heads[place] != root) parent = heads[place];
      return;
    }
    if (place > 0) parent = heads[place & (place - 1)];
    for (std::size_t bit = 1; bit < heads.size() && (place & bit) == 0; bit <<= 1) {
      if ((place | bit) < heads.size()) children.insert(children.begin(), heads[place | bit]);
    }
    if (place > 0) children.insert(children.end(), group.mates.begin(), group.mates.end());
  }

 private:
  static bool same_node(const MpiGroup& group, int a, int b) { return group.node(a) == group.node(b); }
};

/// The root's side: done when no other rank reads the block and no message from it is under way.
template <class T>
class MpiLoan final : public MpiTask {
 public:
  MpiLoan(std::shared_ptr<MpiGroup> group, View<const T> block, std::uint64_t number, int tag)
      : MpiTask("broadcast_panel"),
        group_(std::move(group)),
        transfers_(*group_),
        block_(block),
        number_(number),
        tag_(tag) {
    ++group_->loans;
    if (group_->world->shares_memory()) {
      lend_to_node();
      for (const int child : PanelRoute(*group_, group_->rank).children) send(child);
    } else {
      transfers_.broadcast(const_cast<T*>(packed()), block_.size(), group_->rank, chunk());
    }
  }

  bool advance() override {
    if (on_board_ && !posted_) {
      // In the order of their numbers: two may want the same slot.
      if (turn_ != group_->loans_posted || !group_->board.free(number_)) return false;
      group_->board.post(number_, offset_, block_.rows, block_.cols, ld_);
      group_->ring_members();
      posted_ = true;
      ++group_->loans_posted;
    }
    if (!transfers_.test(name) || (on_board_ && !group_->board.released(number_))) return false;
    --group_->loans;
    return true;
  }
  [[nodiscard]] bool uses_messages() const noexcept override { return transfers_.any(); }

 private:
  [[nodiscard]] index_t chunk() const noexcept { return group_->world->chunk(sizeof(T)); }

  /// In place where the block lies in this rank's segment, else as a copy there, else by messages.
  void lend_to_node() {
    if (group_->mates.empty()) return;
    on_board_ = static_cast<bool>(group_->board);
    const std::shared_ptr<MpiArena>& arena = group_->world->arena();
    if (on_board_) {
      turn_ = group_->loans_on_board++;
      const Extent<T> span = extent_of(block_);
      ld_ = block_.ld;
      if (const auto at = arena->offset_of(span.begin, static_cast<std::size_t>(span.end - span.begin) * sizeof(T))) {
        offset_ = *at;
        return;
      }
      shared_ = allocate_shared(arena, static_cast<std::size_t>(block_.size()) * sizeof(T));
      if (shared_) {
        auto* copy = reinterpret_cast<T*>(shared_.get());
        copy_rectangle(block_, View<T>(copy, block_.shape()));
        offset_ = shared_.get() - group_->segment(group_->rank);
        ld_ = block_.cols;
        ++group_->world->statistics.loans_staged;
        return;
      }
    }
    for (const int mate : group_->mates) send(mate);
  }

  void send(int to) { transfers_.send(packed(), block_.size(), to, tag_, chunk()); }
  [[nodiscard]] const T* packed() {
    if (block_.contiguous()) return block_.data;
    if (packed_.data() == nullptr) {
      packed_ = MpiBuffer<T>(*group_->world, block_.size());
      pack_range(block_, 0, block_.size(), packed_.data());
    }
    return packed_.data();
  }

  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;
  View<const T> block_;
  std::uint64_t number_;
  int tag_;
  Memory shared_;
  MpiBuffer<T> packed_;
  index_t offset_ = -1;
  index_t ld_ = 0;
  std::uint64_t turn_ = 0;
  bool on_board_ = false;
  bool posted_ = false;
};

/// Another rank's side: done when the panel can be read and has been passed on.
template <class T>
class MpiBorrow final : public MpiTask {
 public:
  MpiBorrow(std::shared_ptr<MpiGroup> group, View<T> buffer, int root, std::uint64_t number, int tag)
      : MpiTask("broadcast_panel"),
        group_(std::move(group)),
        transfers_(*group_),
        view(buffer),
        buffer_(buffer),
        root_(root),
        number_(number),
        tag_(tag),
        on_board_(group_->near(root) && group_->board),
        children_(group_->world->pooled<int>()) {
    if (on_board_) {
      group_->board.expect(number_);
      return;
    }
    if (!group_->world->shares_memory()) {
      transfers_.broadcast(destination(), buffer_.size(), root, chunk());
    } else {
      PanelRoute route(*group_, root);
      children_ = std::move(route.children);
      receive(route.parent < 0 ? root : route.parent);
    }
  }

  bool advance() override {
    if (on_board_ && !found_) {
      const PanelSlot* slot = group_->board.find(number_);
      if (slot == nullptr) return false;
      found_ = true;
      check_shape(name, "the panel of the root", {slot->rows, slot->cols}, buffer_.shape());
      if (slot->offset >= 0) {
        view = {reinterpret_cast<const T*>(group_->segment(root_) + slot->offset), slot->rows, slot->cols, slot->ld};
        arrived_ = true;
        borrowed_ = true;
        ++group_->world->statistics.panels_in_place;
        credit<T>(*group_, view.size());
        return true;
      }
      receive(root_);
    }
    if (!transfers_.test(name)) return false;
    if (!arrived_) {
      arrived_ = true;
      if (!buffer_.contiguous()) unpack_range<T>(packed_.data(), buffer_, 0, buffer_.size());
      ++group_->world->statistics.panels_copied;
      credit<T>(*group_, buffer_.size());
      if (on_board_) give_back();
      for (const int child : children_) {
        transfers_.send<T>(source(), buffer_.size(), child, tag_, chunk());
      }
      if (!transfers_.test(name)) return false;
    }
    return true;
  }

  [[nodiscard]] bool uses_messages() const noexcept override { return transfers_.any(); }

  /// The reader is through with what it read in place.
  void give_back() noexcept {
    if (!on_board_ || !std::exchange(borrowed_, false)) return;
    if (group_->board.release(number_)) world().ring(group_->world_rank(root_));
  }

  [[nodiscard]] MpiWorld& world() const noexcept { return *group_->world; }

 private:
  [[nodiscard]] index_t chunk() const noexcept { return group_->world->chunk(sizeof(T)); }
  [[nodiscard]] T* destination() {
    if (buffer_.contiguous()) return buffer_.data;
    packed_ = MpiBuffer<T>(*group_->world, buffer_.size());
    return packed_.data();
  }
  [[nodiscard]] const T* source() const { return buffer_.contiguous() ? buffer_.data : packed_.data(); }
  void receive(int from) {
    borrowed_ = on_board_;
    transfers_.receive(destination(), buffer_.size(), from, tag_, chunk());
  }

  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;

 public:
  View<const T> view;

 private:
  View<T> buffer_;
  int root_;
  std::uint64_t number_;
  int tag_;
  bool on_board_;
  bool found_ = false;
  bool arrived_ = false;
  bool borrowed_ = false;
  MpiBuffer<T> packed_;
  PanelRoute::Members children_;
};

}  // namespace partita::detail
