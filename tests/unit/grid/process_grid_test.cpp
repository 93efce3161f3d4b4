// SPDX-License-Identifier: Apache-2.0
// Grids of ranks: coordinates, the sub-communicator of every set of axes, and extents that are checked on all ranks.
#include "partita/grid/process_grid.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/threads.hpp"

namespace partita::test {
namespace {

TEST_CASE("the world rank of (k, r, c) is c + C(r + R k)") {
  on_ranks(12, [](ThreadContext& context) {
    const auto grid = make_grid<Grid<Axis<Depth, 2>, Axis<Row, 2>, Axis<Col, 3>>>(context);
    CHECK(grid.extent<Depth>() == 2);
    CHECK(grid.extent<Col>() == 3);
    CHECK(context.rank() == grid.coordinate<Col>() + 3 * (grid.coordinate<Row>() + 2 * grid.coordinate<Depth>()));
    CHECK(grid.ranks().axes() == AxisList{0, 1, 2});
    CHECK(grid.ranks().name(1) == "Row");
  });
}

TEST_CASE("the sub-communicator of every set of axes holds the ranks that differ along them, in grid order") {
  // Lists in any order, asked for in the same order by all ranks.
  const std::vector<AxisList> lists = {AxisList{0},    AxisList{1},    AxisList{2},       AxisList{0, 1},
                                       AxisList{1, 0}, AxisList{0, 2}, AxisList{2, 0},    AxisList{1, 2},
                                       AxisList{2, 1}, AxisList{},     AxisList{2, 1, 0}, AxisList{0, 1, 2}};
  on_ranks(12, [&](ThreadContext& context) {
    const auto grid = make_grid<Grid<Axis<Depth, 2>, Axis<Row, 3>, Axis<Col, 2>>>(context);
    auto& ranks = grid.ranks();
    for (const AxisList& axes : lists) {
      auto& comm = ranks.comm(axes);
      const AxisList sorted = axes.sorted();
      CHECK(comm.size() == group_size(axes, ranks.extents()));
      CHECK(comm.rank() == index_along(sorted, ranks.extents(), ranks.coordinates()));
      // Member i of the group is the rank whose coordinates along the axes are those of i.
      const int mine = context.rank();
      std::vector<int> members(static_cast<std::size_t>(comm.size()));
      std::vector<Block> blocks;
      for (int i = 0; i < comm.size(); ++i) blocks.push_back({{0, 1}, {i, i + 1}});
      comm.all_gather(row_view(&mine, 1), row_view(members.data(), comm.size()), blocks).wait();
      for (int i = 0; i < comm.size(); ++i) {
        const AxisValues at = coordinates_along(sorted, ranks.extents(), i, ranks.coordinates());
        CHECK(members[static_cast<std::size_t>(i)] == index_along(ranks.axes(), ranks.extents(), at));
      }
      CHECK(&ranks.comm(axes) == &comm);  // made once
      CHECK(&ranks.comm(sorted) == &comm);
    }
    CHECK(&ranks.comm(AxisList{0, 1, 2}) == &context.comm());
  });
}

/// The text of the error that every rank meets, told apart where ranks differ.
template <class E, class F>
std::string refusal_on(int ranks, F make) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](ThreadContext& context) {
    auto& text = texts[static_cast<std::size_t>(context.rank())];
    try {
      make(context);
      text = "accepted";
    } catch (const E& error) {
      text = error.what();
    }
    context.comm().barrier();
    (void)make_grid<TpGrid<>>(context, ranks);  // the next grid works
  });
  for (const auto& text : texts) {
    if (text != texts.front()) return "ranks differ: " + texts.front() + " / " + text;
  }
  return texts.front();
}

TEST_CASE("X01: rank counts that do not fit say what would") {
  const auto fixed_25d = [](ThreadContext& context) { (void)make_grid<Summa25D<2, 2>>(context); };
  for (const int p : {4, 7, 9}) {
    CHECK(refusal_on<GridError>(p, fixed_25d) ==
          "GridError: Summa25D<2,2> needs 8 ranks (2*2*2), the communicator has " + std::to_string(p));
  }
  CHECK(refusal_on<GridError>(6, [](ThreadContext& context) { (void)make_grid<Summa2D<2>>(context); }) ==
        "GridError: Summa2D<2,2> needs 4 ranks (2*2), the communicator has 6");
  CHECK(refusal_on<GridError>(6, [](ThreadContext& context) { (void)make_grid<Summa2D<>>(context, 3, 3); }) ==
        "GridError: Summa2D<3,3> needs 9 ranks (3*3), the communicator has 6");
  CHECK(refusal_on<GridError>(12, [](ThreadContext& context) { (void)make_grid<Summa25D<2, 3>>(context); }) ==
        "accepted");
  CHECK(refusal_on<GridError>(1, [](ThreadContext& context) { (void)make_grid<Summa25D<1, 1>>(context); }) ==
        "accepted");
  CHECK(refusal_on<GridError>(1, [](ThreadContext& context) { (void)make_grid<Summa25D<>>(context, 1, 1, 1); }) ==
        "accepted");
  // Run-time extents.
  for (const int extent : {0, -1, -7}) {
    const auto text =
        refusal_on<GridError>(2, [extent](ThreadContext& context) { (void)make_grid<Grid2D<>>(context, extent, 2); });
    CHECK(text.find("every axis needs an extent of at least 1") != std::string::npos);
  }
  CHECK(refusal_on<GridError>(2, [](ThreadContext& context) {
          (void)make_grid<Grid2D<>>(context, 2);
        }).find("1 extents given for a grid with 2 dynamic axes") != std::string::npos);
  CHECK(refusal_on<GridError>(2, [](ThreadContext& context) {
          (void)make_grid<TpGrid<2>>(context, 2);
        }).find("1 extents given for a grid with 0 dynamic axes") != std::string::npos);
  // Extents whose product leaves 32 bits, and 64.
  const int much = 1 << 30;
  CHECK(refusal_on<GridError>(2, [](ThreadContext& context) { (void)make_grid<Grid2D<>>(context, much, 2); }) !=
        "accepted");
  CHECK(refusal_on<GridError>(
            2, [](ThreadContext& context) { (void)make_grid<Grid25D<>>(context, much, much, much); }) != "accepted");
}

TEST_CASE("grid_as: fixed extents for dynamic ones, where they are right") {
  on_ranks(6, [](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 3);
    const auto fixed = grid_as<Grid2D<2, 3>>(grid);
    CHECK(&fixed.ranks() == &grid.ranks());
    CHECK(&grid_as<Grid2D<>>(fixed).ranks() == &grid.ranks());
    const auto wrong = [&] { (void)grid_as<Grid2D<3, 2>>(grid); };
    CHECK_THROWS_WITH_AS(wrong(), "GridError: axis Row has extent 2, the partition asks for 3", GridError);
  });
}

}  // namespace
}  // namespace partita::test
