// SPDX-License-Identifier: Apache-2.0
// Who sends what to whom when a matrix moves from one layout and grid to another on the same ranks.
#pragma once

#include "partita/base/axis_list.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/partition/blocks.hpp"
#include "partita/schedule/step.hpp"

namespace partita {

/// A layout on a grid of the given extents, with the units at whose multiples dimensions are cut.
struct Placement {
  Layout layout;
  AxisList axes;  // all axes of the grid
  AxisValues extents{};
  Units units;

  [[nodiscard]] constexpr Block block(Shape shape, int rank) const noexcept {
    return block_of(layout, shape, units, extents, coordinates(rank));
  }
  [[nodiscard]] constexpr AxisValues coordinates(int rank) const noexcept {
    return coordinates_along(axes, extents, rank);
  }
};

[[nodiscard]] constexpr Range intersect(Range a, Range b) noexcept {
  const Range both{a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
  return both.empty() ? Range{} : both;
}
[[nodiscard]] constexpr Block intersect(Block a, Block b) noexcept {
  const Block both{intersect(a.rows, b.rows), intersect(a.cols, b.cols)};
  return both.rows.empty() || both.cols.empty() ? Block{} : both;
}

/// The exchange between two placements of one matrix, seen from rank `self`. Blocks of the source tile the matrix, so
/// one rectangle for each pair of ranks suffices. An element that the receiver holds already is not sent; of several
/// copies, the one nearest to the receiver is: with its coordinates along the axes that replicate. A `window` limits
/// what is wanted to a part of the matrix, the same on all ranks.
class Exchange {
 public:
  constexpr Exchange(Shape shape, const Placement& from, const Placement& to, int self)
      : Exchange(shape, from, to, self, {{0, shape.rows}, {0, shape.cols}}) {}
  constexpr Exchange(Shape shape, const Placement& from, const Placement& to, int self, Block window)
      : shape_(shape), from_(from), to_(to), self_(self), ranks_(group_size(from.axes, from.extents)), window_(window) {
    const AxisList cut = from.layout.rows + from.layout.cols;
    copy_axes_ = from.axes.without(cut);
    for (int rank = 0; rank < ranks_ && local_; ++rank) {
      const Block wanted = wanted_by(rank);
      local_ = wanted.size() == 0 || intersect(wanted, from_.block(shape_, rank)) == wanted;
    }
  }

  [[nodiscard]] constexpr int ranks() const noexcept { return ranks_; }
  [[nodiscard]] constexpr int self() const noexcept { return self_; }
  [[nodiscard]] constexpr Block held() const noexcept { return from_.block(shape_, self_); }
  [[nodiscard]] constexpr Block wanted() const noexcept { return wanted_by(self_); }
  /// Whether every rank holds all that it wants; then nothing is communicated.
  [[nodiscard]] constexpr bool local() const noexcept { return local_; }

  /// The rectangle that `receiver` takes from `sender`'s block; empty where it takes none. Every wanted element comes
  /// from exactly one sender.
  [[nodiscard]] constexpr Block piece(int sender, int receiver) const noexcept {
    const AxisValues s = from_.coordinates(sender);
    const AxisValues r = from_.coordinates(receiver);
    // Among the ranks with the sender's block, the receiver takes it from the one that shares its other coordinates.
    if (index_along(copy_axes_, from_.extents, s) != index_along(copy_axes_, from_.extents, r)) return {};
    return intersect(from_.block(shape_, sender), wanted_by(receiver));
  }
  /// The elements that this rank receives from others, and from how many of them.
  [[nodiscard]] constexpr Traffic received() const noexcept {
    Traffic traffic;
    for (int sender = 0; sender < ranks_ && !local_; ++sender) {
      const index_t n = piece(sender, self_).size();
      if (sender == self_ || n == 0) continue;
      traffic.elements += n;
      ++traffic.messages;
    }
    return traffic;
  }

  /// The steps, as a schedule's: at most one all_to_all_v over the whole grid.
  template <class F>
  constexpr void for_each(F&& f) const {
    if (local_) return;
    Step step;
    step.kind = StepKind::all_to_all_v;
    step.axes = from_.axes;
    step.ranks = ranks_;
    step.self = self_;
    step.block = wanted();
    const Traffic traffic = received();
    step.elements = traffic.elements;
    step.messages = traffic.messages;
    f(step);
  }
  [[nodiscard]] constexpr index_t workspace() const noexcept { return 0; }

 private:
  [[nodiscard]] constexpr Block wanted_by(int rank) const noexcept {
    return intersect(to_.block(shape_, rank), window_);
  }

  Shape shape_;
  Placement from_;
  Placement to_;
  int self_;
  int ranks_;
  Block window_;
  AxisList copy_axes_;  // along which the source is replicated
  bool local_ = true;
};

}  // namespace partita
