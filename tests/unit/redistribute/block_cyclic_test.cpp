// SPDX-License-Identifier: Apache-2.0
// Block-cyclic arrays against the definition: any block sizes, source processes and process grids, in and out.

#include <doctest/doctest.h>

#include <array>

#include "partita/partition/policies.hpp"
#include "partita/redistribute/block_cyclic.hpp"
#include "partita/schedule/count.hpp"
#include "support/grids.hpp"

using namespace partita;
using namespace partita::test;

namespace {

double value(index_t i, index_t j) { return static_cast<double>(100 * i + j + 1); }

/// The owner of a global index by the definition: block number modulo the places, from the source on.
int owner(index_t i, index_t block, int places, int source) { return static_cast<int>((i / block + source) % places); }

int rank_of(const BlockCyclic& a, index_t i, index_t j) {
  const int r = owner(i, a.mb, a.process_rows, a.row_source);
  const int c = owner(j, a.nb, a.process_cols, a.col_source);
  return a.column_major_ranks ? r + c * a.process_rows : r * a.process_cols + c;
}

/// The local array of a rank, filled one global element after the other as they are dealt out.
std::vector<double> local_array(const BlockCyclic& a, int rank, index_t lld, bool filled) {
  const Shape local = a.local_shape(rank);
  std::vector<double> out(static_cast<std::size_t>(lld * local.cols), -7);
  if (!filled) return out;
  index_t col = 0;
  for (index_t j = 0; j < a.shape.cols; ++j) {
    index_t row = 0;
    for (index_t i = 0; i < a.shape.rows; ++i) {
      if (rank_of(a, i, j) == rank) out[static_cast<std::size_t>(col * lld + row++)] = value(i, j);
    }
    bool mine = false;
    for (int r = 0; r < a.process_rows; ++r) {
      const int c = owner(j, a.nb, a.process_cols, a.col_source);
      mine = mine || (a.column_major_ranks ? r + c * a.process_rows : r * a.process_cols + c) == rank;
    }
    if (mine) ++col;
  }
  return out;
}

template <class P, class Grid>
void round_trip(CountedContext& context, const Grid& grid, const BlockCyclic& a, Units units) {
  const Shape local = a.local_shape(context.rank());
  const index_t lld = local.rows + 2;
  const std::vector<double> array = local_array(a, context.rank(), lld, true);
  const Traffic before = context.comm().traffic();
  const auto x = from_block_cyclic<P>(grid, a, array.data(), lld, units);
  const Traffic moved = context.comm().traffic() - before;
  const Block block = x.block();
  index_t missing = 0;
  bool right = true;
  for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
    for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
      right = right && x.local()(i - block.rows.begin, j - block.cols.begin) == value(i, j);
      if (rank_of(a, i, j) != context.rank()) ++missing;
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

}  // namespace

TEST_CASE("block-cyclic arrays come in and go out under any block size and source process") {
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
  launch_threads(6, [&](ThreadComm& comm) {
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
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
  });
}

TEST_CASE("a ScaLAPACK descriptor gives the array") {
  const std::array<int, 9> descriptor{1, 0, 10, 8, 4, 2, 1, 0, 10};
  const BlockCyclic a = BlockCyclic::from_descriptor(descriptor, 2, 2);
  CHECK(a.shape == Shape{10, 8});
  CHECK(a.mb == 4);
  CHECK(a.nb == 2);
  CHECK(a.row_source == 1);
  // NUMROC(10, 4, 0, 1, 2) = 4 and NUMROC(8, 2, 0, 0, 2) = 4
  CHECK(a.local_shape(0) == Shape{4, 4});
  CHECK(a.local_shape(2) == Shape{6, 4});
  const std::array<int, 9> banded{501, 0, 10, 8, 4, 2, 0, 0, 10};
  CHECK_THROWS_AS((void)BlockCyclic::from_descriptor(banded, 2, 2), ArgumentError);
}

TEST_CASE("an array that is unsound on one rank is refused on all, and the communicator stays usable") {
  launch_threads(4, [](ThreadComm& comm) {
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
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
    CHECK(from_block_cyclic<Summa2D<2>>(grid, a, local.data(), 4).local()(0, 0) == 1);
  });
}
