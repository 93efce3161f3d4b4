// SPDX-License-Identifier: Apache-2.0
// The pending sums of a product: its last steps, or those that follow each panel of a result that is made in panels.
#pragma once

#include <algorithm>

#include "partita/matmul/frame.hpp"

namespace partita {

/// How the natural result of one rank is summed over `common`, as the result asked for wants it.
///
/// A local product whose result waits for one sum may be cut: one dimension of C is swept in panels, and the sum of
/// each begins when it has been multiplied, so that it moves while the next is. Rows are cut for an all_reduce and for
/// a reduce_scatter of columns; for a reduce_scatter of rows, of which every panel shall hold a part of every rank,
/// columns. All ranks together move the same elements. The width is MatmulOptions::sum_width.
class ProductSums {
 public:
  constexpr ProductSums(const ProductFrame& frame, const MatmulOptions& options)
      : whole_(frame.natural_block()),
        over_rows_(frame.product().finish.scatter_rows.empty()),
        asked_(options.sum_width.value_or(0)) {
    const Finish& finish = frame.product().finish;
    const index_t extent = (over_rows_ ? whole_.rows : whole_.cols).size();
    width_ = extent;
    const AxisList scattered = finish.scatter_rows + finish.scatter_cols;
    const int sums = scattered.size() + (finish.all_reduce.empty() ? 0 : 1);
    const bool alone = group_size(scattered + finish.all_reduce, frame.geometry().extents) == 1;
    if (frame.plan().algorithm != Algorithm::local || sums != 1 || alone || whole_.size() == 0) return;
    if (asked_ > 0) {
      width_ = std::min(extent, asked_);
    } else if (frame.geometry().prefers_cut_sums) {
      const index_t parts = std::clamp<index_t>(extent / narrowest, 1, most_parts);
      width_ = (extent + parts - 1) / parts;
    }
  }

  /// The width that the options ask for; 0 where they leave it open. Unlike the panels, the same on all ranks.
  [[nodiscard]] constexpr index_t asked() const noexcept { return asked_; }
  /// Panels of the result: 1 where it is summed as a whole.
  [[nodiscard]] constexpr index_t panels() const noexcept {
    const index_t extent = (over_rows_ ? whole_.rows : whole_.cols).size();
    return width_ == 0 ? 1 : (extent + width_ - 1) / width_;
  }
  [[nodiscard]] constexpr bool cut() const noexcept { return panels() > 1; }
  /// The rectangle of C in panel `number`.
  [[nodiscard]] constexpr Block panel(index_t number) const noexcept {
    Block block = whole_;
    Range& swept = over_rows_ ? block.rows : block.cols;
    swept.begin += number * width_;
    swept.end = std::min(swept.end, swept.begin + width_);
    return block;
  }

  /// Calls f(step) for the sums of panel `number`: first each scatter in order, then the all-reduce.
  template <class F>
  constexpr void for_each(const ProductFrame& frame, index_t number, F&& f) const {
    const Finish& finish = frame.product().finish;
    Layout layout = frame.plan().natural;
    const auto sum = [&](StepKind kind, const AxisList& axes) {
      Step step = frame.grouped(kind, Operand::c, axes);
      step.panel = number;
      step.last = number + 1 == panels();
      step.block = cut() ? panel(number) : frame.c_block(layout);
      return step;
    };
    for (const bool over_rows : {true, false}) {
      for (const int axis : over_rows ? finish.scatter_rows : finish.scatter_cols) {
        Step step = sum(StepKind::reduce_scatter, AxisList{axis});
        AxisList& axes = over_rows ? layout.rows : layout.cols;
        step.parts.over_rows = over_rows;
        step.parts.axes = step.axes;
        step.parts.extents = frame.geometry().extents;
        step.parts.dimension = over_rows ? frame.m() : frame.n();
        step.parts.units = frame.units(step.parts.dimension, axes);
        axes.push_back(axis);
        f(step);
      }
    }
    if (!finish.all_reduce.empty()) f(sum(StepKind::all_reduce, finish.all_reduce));
  }

 private:
  // Where the width is left open. Narrower parts lose more in product and collective than the overlap gains; after a
  // few, so little is left to hide that more do not pay.
  static constexpr index_t narrowest = 512;
  static constexpr index_t most_parts = 4;

  Block whole_;
  bool over_rows_ = true;
  index_t asked_ = 0;
  index_t width_ = 0;
};

}  // namespace partita
