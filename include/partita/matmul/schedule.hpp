// SPDX-License-Identifier: Apache-2.0
// From a plan and the sizes to one rank's steps: one sweep that covers local, stationary C, A and B.
#pragma once

#include <limits>

#include "partita/matmul/frame.hpp"
#include "partita/matmul/sums.hpp"

namespace partita {

/// The steps of one rank. One dimension is swept in panels; of the three matrices two have that dimension, and each is
/// fixed, comes in along a list of axes, or goes out along one:
///
///   algorithm      swept  A              B              C
///   local          k      fixed          fixed          fixed
///   stationary C   k      comes, extra   comes, extra   fixed
///   stationary A   n      fixed          comes, S       goes, last of common
///   stationary B   m      comes, S       fixed          goes, last of common
///
/// A local product whose result waits for a sum may have C swept instead, see ProductSums.
///
/// Steps are generated, not stored: a cursor is a position in the swept dimension, and the owners of a panel follow by
/// inverting the balanced cut. The object is a value; all functions are constexpr.
class ProductSchedule {
 public:
  constexpr ProductSchedule(const ProductPlan& product, const ProductGeometry& geometry, const MatmulOptions& options)
      : frame_(product, geometry),
        sums_(frame_, options),
        panels_(options.panels.value_or(geometry.prefers_all_gather ? PanelMove::all_gather : PanelMove::broadcast)) {
    const Plan& plan = product.plan;
    const bool lent = geometry.panels_in_place && plan.outgoing.empty() && panels_ == PanelMove::broadcast;
    panel_width_ = options.panel_width.value_or(lent ? std::numeric_limits<index_t>::max() : 512);
    lookahead_ = options.lookahead.value_or(lent ? most_panels_in_flight : 2);
    if (lookahead_ > most_panels_in_flight) lookahead_ = most_panels_in_flight;
    const bool over_n = plan.algorithm == Algorithm::stationary_a;
    add_movement(Operand::a, plan.incoming_a, frame_.sweeps_k() ? frame_.k_of_a() : frame_.m());
    add_movement(Operand::b, plan.incoming_b, frame_.sweeps_k() ? frame_.k_of_b() : frame_.n());
    add_movement(Operand::c, plan.outgoing, over_n ? frame_.n() : frame_.m());
    // A product without elements, or without terms, has nothing to sweep, however long the dimension.
    if (geometry.m > 0 && geometry.n > 0 && geometry.k > 0) {
      swept_ = movements_ == 0 ? frame_.k() : movement_[0].dimension.elements(movement_[0].units);
    }
    find_slices();
  }

  [[nodiscard]] constexpr const ProductFrame& frame() const noexcept { return frame_; }
  /// The widest panel allowed, and the panels in flight: what the options ask for or leave open.
  [[nodiscard]] constexpr index_t panel_width() const noexcept { return panel_width_; }
  [[nodiscard]] constexpr int lookahead() const noexcept { return lookahead_; }
  /// How panels are to move, by the options or else by the communicator.
  [[nodiscard]] constexpr PanelMove panels() const noexcept { return panels_; }
  /// Whether panels move as all-gathers of slices; false where they were asked for but blocks are uneven.
  [[nodiscard]] constexpr bool sliced_panels() const noexcept { return slices_ > 1; }
  [[nodiscard]] constexpr const ProductSums& sums() const noexcept { return sums_; }
  /// Slices in one panel; 1 where panels are broadcast.
  [[nodiscard]] constexpr int slices() const noexcept { return slices_; }
  /// The interval of the swept dimension that this rank's group sweeps.
  [[nodiscard]] constexpr Range swept() const noexcept { return swept_; }
  /// The most elements of the swept dimension in a panel that moves.
  [[nodiscard]] constexpr index_t widest_panel() const noexcept {
    if (movements_ == 0 || swept_.empty()) return 0;
    if (slices_ > 1) return slices_ * slice_width_;
    index_t widest = panel_width_;
    for (int i = 0; i < movements_; ++i) {  // the first block along each list is the largest
      const Movement& move = movement_[i];
      const index_t block = move.dimension.elements(nested_units(move.units, move.axes, extents(), {})).size();
      if (block < widest) widest = block;
    }
    return widest;
  }

  /// Scratch elements for the widest panel of an operand: incoming panels of A and B, unless they are read in place,
  /// and partial products of C.
  [[nodiscard]] constexpr index_t panel_elements(Operand operand) const {
    if (operand != Operand::c && slices_ == 1 && frame_.geometry().panels_in_place) return 0;
    for (int i = 0; i < movements_; ++i) {
      if (movement_[i].operand == operand) return frame_.panel_block(operand, {0, widest_panel()}).size();
    }
    return 0;
  }
  /// Elements of the accumulators in which a result waits for its pending sums, or for the one rounding to 16 bits; and
  /// where slices are reduce-scattered, since they are added to C afterwards.
  [[nodiscard]] constexpr index_t accumulator_elements() const {
    const bool scattered_slices = slices_ > 1 && !frame_.plan().outgoing.empty();
    if (frame_.product().finish.empty() && !frame_.geometry().widened && !scattered_slices) return 0;
    const bool scatters =
        !frame_.product().finish.scatter_rows.empty() || !frame_.product().finish.scatter_cols.empty();
    return frame_.natural_block().size() * (scatters ? 2 : 1);
  }
  /// All scratch elements.
  [[nodiscard]] constexpr index_t workspace() const {
    return lookahead_ * (panel_elements(Operand::a) + panel_elements(Operand::b) + panel_elements(Operand::c)) +
           accumulator_elements();
  }

  /// Calls f(step) for each step, in the order in which they are executed.
  template <class F>
  constexpr void for_each(F&& f) const {
    if (sums_.cut()) return sweep_sums(f);
    if (slices_ > 1) {
      sweep_slices(f);
    } else {
      sweep_panels(f);
    }
    sums_.for_each(frame_, 0, f);
  }

 private:
  struct Movement {
    Operand operand = Operand::a;
    AxisList axes;  // in the order in which they cut
    Dimension dimension;
    Range units;  // of the swept dimension, that the axes cut
  };

  [[nodiscard]] constexpr const AxisValues& extents() const noexcept { return frame_.geometry().extents; }

  constexpr void add_movement(Operand operand, const AxisList& axes, const Dimension& dimension) {
    if (axes.empty()) return;
    movement_[movements_++] = {operand, axes, dimension, frame_.units(dimension, frame_.plan().kept)};
  }

  /// Slices are used when every movement cuts the swept interval into the same blocks of one size.
  constexpr void find_slices() {
    if (panels_ != PanelMove::all_gather || movements_ == 0 || swept_.empty()) return;
    const int count = group_size(movement_[0].axes, extents());
    for (int i = 0; i < movements_; ++i) {
      const Movement& move = movement_[i];
      if (group_size(move.axes, extents()) != count || move.units.size() % count != 0 ||
          move.units.size() * move.dimension.unit != swept_.size()) {
        return;
      }
    }
    slices_ = count;
    const index_t block_width = swept_.size() / count;
    const index_t width = panel_width_ / count + (panel_width_ % count != 0 ? 1 : 0);
    slice_width_ = width < block_width ? width : block_width;
  }

  [[nodiscard]] constexpr Step gemm(index_t number, Range panel) const {
    Step step;
    step.panel = number;
    step.block = frame_.panel_block(Operand::c, panel);
    step.k = frame_.sweeps_k() ? panel : frame_.k();
    return step;
  }

  /// The broadcast or reduce of a movement's panel, rooted at the rank that owns it.
  [[nodiscard]] constexpr Step rooted(const Movement& move, index_t number, Range panel) const {
    Step step =
        frame_.grouped(move.operand == Operand::c ? StepKind::reduce : StepKind::broadcast, move.operand, move.axes);
    const Owner owner = owner_of(move.dimension, move.units, move.axes, extents(), panel.begin);
    step.root = index_along(step.axes, extents(), owner.coordinates);
    step.panel = number;
    step.block = frame_.panel_block(move.operand, panel);
    return step;
  }

  /// The panel that begins at `position`: as far as one rank owns it on either side, and no wider than allowed.
  [[nodiscard]] constexpr Range panel_at(index_t position) const {
    index_t end = swept_.end;
    for (int i = 0; i < movements_; ++i) {
      const Movement& move = movement_[i];
      const Range owned = owner_of(move.dimension, move.units, move.axes, extents(), position).block;
      if (owned.end < end) end = owned.end;
    }
    if (movements_ > 0 && end - position > panel_width_) end = position + panel_width_;
    return {position, end};
  }

  template <class F>
  constexpr void sweep_panels(F&& f) const {
    index_t issued = swept_.begin;
    index_t issued_number = 0;
    index_t number = 0;
    for (index_t position = swept_.begin; position < swept_.end; ++number) {
      while (movements_ > 0 && issued < swept_.end && issued_number < number + lookahead_) {
        const Range panel = panel_at(issued);
        for (int i = 0; i < movements_; ++i) {
          if (movement_[i].operand != Operand::c) f(rooted(movement_[i], issued_number, panel));
        }
        issued = panel.end;
        ++issued_number;
      }
      const Range panel = panel_at(position);
      f(gemm(number, panel));
      for (int i = 0; i < movements_; ++i) {
        if (movement_[i].operand == Operand::c) f(rooted(movement_[i], number, panel));
      }
      position = panel.end;
    }
  }

  /// Panel number i holds the i-th slice of every owner's block.
  template <class F>
  constexpr void sweep_slices(F&& f) const {
    const index_t block_width = swept_.size() / slices_;
    const index_t panels = (block_width + slice_width_ - 1) / slice_width_;
    index_t issued = 0;
    for (index_t number = 0; number < panels; ++number) {
      for (; issued < panels && issued < number + lookahead_; ++issued) {
        for (int i = 0; i < movements_; ++i) {
          if (movement_[i].operand != Operand::c) f(sliced(movement_[i], issued));
        }
      }
      for (int s = 0; s < slices_; ++s) {
        const Range first = slice(number);
        Step step = gemm(number, {first.begin + s * block_width, first.end + s * block_width});
        step.slice = s;
        step.last = s + 1 == slices_;
        f(step);
      }
      for (int i = 0; i < movements_; ++i) {
        if (movement_[i].operand == Operand::c) f(sliced(movement_[i], number));
      }
    }
  }

  /// The slice of the first owner's block that belongs to panel `number`.
  [[nodiscard]] constexpr Range slice(index_t number) const {
    const index_t begin = number * slice_width_;
    const index_t block_width = swept_.size() / slices_;
    const index_t end = begin + slice_width_ < block_width ? begin + slice_width_ : block_width;
    return {swept_.begin + begin, swept_.begin + end};
  }

  [[nodiscard]] constexpr Step sliced(const Movement& move, index_t number) const {
    const bool out = move.operand == Operand::c;
    Step step = frame_.grouped(out ? StepKind::reduce_scatter : StepKind::all_gather, move.operand, move.axes);
    const Range first = slice(number);
    step.panel = number;
    step.block = frame_.panel_block(move.operand, first);
    step.parts.over_rows = frame_.sweeps_rows_of(move.operand);
    step.parts.axes = move.axes;
    step.parts.extents = extents();
    step.parts.even_begin = first.begin;
    step.parts.even_stride = swept_.size() / slices_;
    step.parts.even_width = first.size();
    return step;
  }

  /// A rank without terms of the sum multiplies nothing, and takes part in it.
  template <class F>
  constexpr void sweep_sums(F&& f) const {
    for (index_t number = 0; number < sums_.panels(); ++number) {
      Step step;
      step.panel = number;
      step.block = sums_.panel(number);
      step.k = frame_.k();
      if (!swept_.empty()) f(step);
      sums_.for_each(frame_, number, f);
    }
  }

  ProductFrame frame_;
  ProductSums sums_;
  PanelMove panels_;
  index_t panel_width_ = 0;
  int lookahead_ = 0;
  Movement movement_[2];
  int movements_ = 0;
  Range swept_;
  int slices_ = 1;
  index_t slice_width_ = 0;
};

}  // namespace partita
