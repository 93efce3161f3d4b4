// SPDX-License-Identifier: Apache-2.0
// Block-cyclic arrays against the definition, as one rank of any kind.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "partita/redistribute/block_cyclic.hpp"
#include "partita/schedule/count.hpp"
#include "support/test_ranks.hpp"

namespace partita::test {

inline double cyclic_value(index_t i, index_t j) { return static_cast<double>(100 * i + j + 1); }

/// The owner of a global index by the definition: block number modulo the places, from the source on.
inline int cyclic_owner(index_t i, index_t block, int places, int source) {
  return static_cast<int>((i / block + source) % places);
}

inline int cyclic_rank(const BlockCyclic& a, index_t i, index_t j) {
  const int r = cyclic_owner(i, a.mb, a.process_rows, a.row_source);
  const int c = cyclic_owner(j, a.nb, a.process_cols, a.col_source);
  return a.column_major_ranks ? r + c * a.process_rows : r * a.process_cols + c;
}

/// The local array of a rank, filled one global element after the other as they are dealt out.
inline std::vector<double> local_array(const BlockCyclic& a, int rank, index_t lld, bool filled) {
  const Shape local = a.local_shape(rank);
  std::vector<double> out(static_cast<std::size_t>(lld * local.cols), -7);
  if (!filled) return out;
  index_t col = 0;
  for (index_t j = 0; j < a.shape.cols; ++j) {
    index_t row = 0;
    for (index_t i = 0; i < a.shape.rows; ++i) {
      if (cyclic_rank(a, i, j) == rank) out[static_cast<std::size_t>(col * lld + row++)] = cyclic_value(i, j);
    }
    bool mine = false;
    for (int r = 0; r < a.process_rows; ++r) {
      const int c = cyclic_owner(j, a.nb, a.process_cols, a.col_source);
      mine = mine || (a.column_major_ranks ? r + c * a.process_rows : r * a.process_cols + c) == rank;
    }
    if (mine) ++col;
  }
  return out;
}

/// In and out, with what moves; arrays stand in the memory of the host.
template <class P, class Grid, class Ctx>
void round_trip(Ctx& context, const Grid& grid, const BlockCyclic& a, Units units) {
  const Shape local = a.local_shape(context.rank());
  const index_t lld = local.rows + 2;
  const std::vector<double> array = local_array(a, context.rank(), lld, true);
  const Traffic before = context.comm().traffic();
  const auto x = from_block_cyclic<P>(grid, a, array.data(), lld, units);
  const Traffic moved = context.comm().traffic() - before;
  const Block block = x.block();
  const Matrix<double> found = elements_of(x);
  index_t missing = 0;
  bool right = true;
  for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
    for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
      right = right && found(i - block.rows.begin, j - block.cols.begin) == cyclic_value(i, j);
      if (cyclic_rank(a, i, j) != context.rank()) ++missing;
    }
  }
  CHECK(right);
  CHECK(moved.elements == missing);
  const CyclicExchange exchange(a, detail::placement_of<P>(x.grid().ranks(), units), context.size(), context.rank(),
                                CyclicExchange::Direction::to_tensor);
  CHECK(count_of(exchange).elements == moved.elements);
  CHECK(count_of(exchange).messages == moved.messages);

  std::vector<double> back = local_array(a, context.rank(), lld, false);
  to_block_cyclic(x, a, back.data(), lld);
  CHECK(back == array);  // padding too
}

/// Any block size and source process, under one partition of each kind. On 6 ranks of a CountingComm.
template <class Ctx>
void check_block_cyclic(Ctx& context) {
  struct Setting {
    Shape shape;
    index_t mb, nb;
    int pr, pc, rsrc, csrc;
    bool column_major;
  };
  const Setting settings[] = {{{13, 11}, 2, 3, 2, 3, 0, 0, false}, {{13, 11}, 2, 3, 2, 3, 1, 2, true},
                              {{7, 20}, 4, 1, 3, 2, 2, 1, false},  {{1, 9}, 5, 64, 2, 2, 1, 0, false},
                              {{0, 5}, 2, 2, 2, 3, 0, 0, false},   {{17, 17}, 1, 1, 1, 6, 0, 5, true},
                              {{16, 16}, 8, 8, 2, 2, 0, 0, false}, {{9, 31}, 100, 7, 1, 1, 0, 0, false}};
  const auto line = make_grid<RowShard<>>(context, 6);
  const auto plane = make_grid<Summa2D<>>(context, 3, 2);
  const auto space = make_grid<Grid<Axis<Depth, dynamic>, Axis<Row, dynamic>, Axis<Col, dynamic>>>(context, 2, 3, 1);
  using Weight =
      Partition<Grid<Axis<Depth, dynamic>, Axis<Row, dynamic>, Axis<Col, dynamic>>, RowsOver<Row>, ColsOver<Col>>;
  for (const Setting& s : settings) {
    const BlockCyclic a{s.shape, s.mb, s.nb, s.pr, s.pc, s.rsrc, s.csrc, s.column_major};
    round_trip<RowShard<>>(context, line, a, {});
    round_trip<ColumnShard<>>(context, line, a, {1, 4});
    round_trip<Replicated<>>(context, line, a, {});
    round_trip<Summa2D<>>(context, plane, a, {2, 3});
    round_trip<Weight>(context, space, a, {});
  }
}

/// An array that is unsound on one rank is refused on all, and the communicator stays usable. On 4 ranks.
template <class Ctx>
void check_unsound_arrays(Ctx& context) {
  const auto grid = make_grid<Summa2D<2>>(context);
  const BlockCyclic a{{8, 8}, 2, 2, 2, 2, 0, 0, false};
  std::vector<double> local(16, 1);
  const index_t lld = context.rank() == 3 ? 3 : 4;
  CHECK_THROWS_AS((void)from_block_cyclic<Summa2D<2>>(grid, a, local.data(), lld), ShapeError);
  CHECK_THROWS_AS((void)from_block_cyclic<Summa2D<2>>(grid, a, context.rank() == 1 ? nullptr : local.data(), 4),
                  ShapeError);
  const BlockCyclic outside{{8, 8}, 2, 2, 2, 2, 2, 0, false};
  CHECK_THROWS_AS((void)from_block_cyclic<Summa2D<2>>(grid, outside, local.data(), 4), ShapeError);
  const BlockCyclic too_many{{8, 8}, 2, 2, 2, 3, 0, 0, false};
  CHECK_THROWS_AS((void)from_block_cyclic<Summa2D<2>>(grid, too_many, local.data(), 4), ShapeError);
  const BlockCyclic huge{{8, 8}, index_t{1} << 62, 2, 2, 2, 0, 0, false};
  CHECK_THROWS_AS((void)from_block_cyclic<Summa2D<2>>(grid, huge, local.data(), 4), ShapeError);
  const BlockCyclic empty{{index_t{1} << 60, 0}, 2, 2, 2, 2, 0, 0, false};
  CHECK(from_block_cyclic<Summa2D<2>>(grid, empty, local.data(), index_t{1} << 60).local().size() == 0);
  CHECK(elements_of(from_block_cyclic<Summa2D<2>>(grid, a, local.data(), 4))(0, 0) == 1);
}

}  // namespace partita::test
