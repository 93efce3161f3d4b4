// SPDX-License-Identifier: Apache-2.0
// The steps of a schedule: what one rank communicates and computes, in order.
#pragma once

#include "partita/base/axis_list.hpp"
#include "partita/base/shape.hpp"
#include "partita/partition/blocks.hpp"

namespace partita {

enum class StepKind { broadcast, gemm, reduce, all_reduce, reduce_scatter, all_gather, all_to_all_v, send_recv };

/// The matrices of C = A·B.
enum class Operand { a, b, c };

/// What each rank of a group holds of one dimension in an all_gather or a reduce_scatter: either the nested cut of
/// `units` along `axes`, or (even_width > 0) slices of equal width at equal distances, in the order of `axes`.
struct Parts {
  bool over_rows = false;
  AxisList axes;  // in the order in which they cut
  AxisValues extents{};
  Dimension dimension;
  Range units;
  index_t even_begin = 0;
  index_t even_stride = 0;
  index_t even_width = 0;

  [[nodiscard]] constexpr int count() const noexcept { return group_size(axes, extents); }
  /// The position of the group's rank among the parts: ranks follow the grid's order, parts that of `axes`.
  [[nodiscard]] constexpr int position_of(int rank) const {
    return index_along(axes, extents, coordinates_along(axes.sorted(), extents, rank));
  }
  /// The part of the group's rank, in global elements.
  [[nodiscard]] constexpr Range of(int rank) const {
    if (even_width > 0) {
      const index_t begin = even_begin + position_of(rank) * even_stride;
      return {begin, begin + even_width};
    }
    return dimension.elements(nested_units(units, axes, extents, coordinates_along(axes.sorted(), extents, rank)));
  }
  /// The rectangle of a part whose other dimension is that of `whole`.
  [[nodiscard]] constexpr Block block_of(int rank, Block whole) const {
    return over_rows ? Block{of(rank), whole.cols} : Block{whole.rows, of(rank)};
  }
};

/// One step. Blocks are global rectangles of the operand that moves; for a gemm `block` is the rectangle of C.
///   broadcast       `block` of A or B, from the rank `root` of the group along `axes` to all of it
///   gemm            C[block] += A[block.rows, k]·B[k, block.cols]
///   reduce          the group's partial products of `block` to `root`
///   all_reduce      `block` of C, summed on all ranks of the group
///   reduce_scatter  `block` of C summed, each rank keeping its part
///   all_gather      the parts of A or B, to all ranks
///   all_to_all_v    every rank's part of C for every other; this rank receives `elements` from `messages` of them
///   send_recv       `block` to `root`, the same amount from `source`
struct Step {
  StepKind kind = StepKind::gemm;
  Operand operand = Operand::c;
  AxisList axes;  // of the group, in grid order
  int ranks = 1;  // in the group
  int self = 0;   // this rank's number in the group
  int root = 0;
  int source = 0;
  index_t panel = 0;  // number in the sweep
  int slice = 0;      // which of a gathered panel's slices a gemm multiplies
  bool last = true;   // whether a gemm is the panel's last
  Block block;
  Range k;
  Parts parts;
  index_t elements = 0;
  index_t messages = 0;
};

}  // namespace partita
