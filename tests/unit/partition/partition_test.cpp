// SPDX-License-Identifier: Apache-2.0
// Partitions as types, their layouts, transposes, grids that meet, and what they are called in messages.
#include "partita/partition/partition.hpp"

#include <doctest/doctest.h>

#include <string>

#include "partita/partition/names.hpp"
#include "partita/partition/policies.hpp"

namespace partita {
namespace {

struct Pipeline {
  static constexpr std::string_view name = "Pipeline";
};

TEST_CASE("the named policies cut what the table says") {
  static_assert(Replicated<>::layout == Layout{});
  static_assert(ColumnShard<>::layout == Layout{{}, AxisList{0}, {}});
  static_assert(RowShard<>::layout == Layout{AxisList{0}, {}, {}});
  static_assert(Summa2D<>::layout == Layout{AxisList{0}, AxisList{1}, {}});
  static_assert(Summa25D<>::layout == Layout{AxisList{0, 1}, AxisList{2}, {}});
  static_assert(Summa25DWeight<>::layout == Layout{AxisList{1}, AxisList{2}, {}});
  static_assert(SplitKLeft<>::layout == Layout{AxisList{1}, AxisList{0, 2}, {}});
  static_assert(SplitKRight<>::layout == Layout{AxisList{0, 1}, AxisList{2}, {}});
  static_assert(std::is_same_v<SplitKRight<2, 3>, Summa25D<2, 3>>);
  static_assert(std::is_same_v<Summa2D<3>, Summa2D<3, 3>> && !std::is_same_v<Summa2D<3>, Summa2D<3, 2>>);
  static_assert(std::is_same_v<Grid25D<2, 3>, Grid<Axis<Depth, 3>, Axis<Row, 2>, Axis<Col, 2>>>);
  CHECK(is_partition_v<Summa2D<2>>);
  CHECK(!is_partition_v<int>);
}

TEST_CASE("transposed_t exchanges rows and columns and keeps the pending sum") {
  using G = Grid25D<2, 3>;
  using P = Partition<G, RowsOver<Col, Row>, ColsOver<>, PartialOver<Depth>>;
  static_assert(std::is_same_v<transposed_t<P>, Partition<G, RowsOver<>, ColsOver<Col, Row>, PartialOver<Depth>>>);
  static_assert(std::is_same_v<transposed_t<transposed_t<P>>, P>);
  static_assert(transposed_t<P>::layout == P::layout.transposed());
  static_assert(P::layout.rows == AxisList{2, 1} && P::layout.partial == AxisList{0});
  static_assert(P::layout.names(0) && !Replicated<>::layout.names(0));
  CHECK(std::is_same_v<on_grid_t<Summa2D<2, 3>, Grid2D<>>, Summa2D<>>);
}

TEST_CASE("policy names: fixed preference, lists where there is no name") {
  constexpr std::string_view tp[] = {"Tp"};
  constexpr std::string_view flat[] = {"Row", "Col"};
  constexpr std::string_view deep[] = {"Depth", "Row", "Col"};
  CHECK(layout_text(Replicated<>::layout, tp) == "Replicated");
  CHECK(layout_text(ColumnShard<>::layout, tp) == "ColumnShard");
  CHECK(layout_text(RowShard<>::layout, tp) == "RowShard");
  CHECK(layout_text(Summa2D<>::layout, flat) == "Summa2D");
  CHECK(layout_text(transposed_t<Summa2D<>>::layout, flat) == "transposed(Summa2D)");
  CHECK(layout_text(Summa25D<>::layout, deep) == "Summa25D");
  CHECK(layout_text(SplitKRight<>::layout, deep) == "Summa25D");
  CHECK(layout_text(transposed_t<Summa25D<>>::layout, deep) == "transposed(Summa25D)");
  CHECK(layout_text(Summa25DWeight<>::layout, deep) == "Summa25DWeight");
  CHECK(layout_text(transposed_t<Summa25DWeight<>>::layout, deep) == "transposed(Summa25DWeight)");
  CHECK(layout_text(SplitKLeft<>::layout, deep) == "SplitKLeft");
  CHECK(layout_text(transposed_t<SplitKLeft<>>::layout, deep) == "transposed(SplitKLeft)");
  // The transpose of ColumnShard is RowShard.
  CHECK(layout_text(transposed_t<ColumnShard<>>::layout, tp) == "RowShard");
  // Without a name; the same lists on another grid have none either.
  CHECK(layout_text(Replicated<>::layout, flat) == "{replicated}");
  CHECK(layout_text({AxisList{2}, AxisList{1, 0}, {}}, deep) == "{rows over Col; columns over Row, Depth}");
  CHECK(layout_text({{}, {}, AxisList{0}}, tp) == "{partial over Tp}");
  CHECK(policy_name({AxisList{1}, {}, {}}, flat).empty());
  constexpr std::string_view other[] = {"Col", "Row"};
  CHECK(policy_name(Summa2D<>::layout, other).empty());
  CHECK(axes_text(AxisList{2, 0}, deep) == "Col, Depth");
}

TEST_CASE("grids: positions, fixed meets dynamic, a user's own axis") {
  using G = Grid<Axis<Pipeline, 2>, Axis<Row, dynamic>, Axis<Col, 3>>;
  static_assert(G::axis_count == 3 && !G::fixed && G::has<Pipeline> && !G::has<Depth>);
  static_assert(G::position<Col> == 2 && G::position<Depth> == -1);
  CHECK(G::names[0] == "Pipeline");
  CHECK(G::extents[1] == dynamic);
  static_assert(grids_meet<Grid2D<2, dynamic>, Grid2D<dynamic, 3>>);
  static_assert(std::is_same_v<meet_grids_t<Grid2D<2, dynamic>, Grid2D<dynamic, 3>>, Grid2D<2, 3>>);
  static_assert(std::is_same_v<meet_grids_t<Grid2D<dynamic, dynamic>, Grid2D<dynamic, dynamic>>, Grid2D<>>);
  static_assert(std::is_same_v<meet_grids_t<Grid2D<2, 2>, Grid2D<2, 2>>, Grid2D<2, 2>>);
  static_assert(!grids_meet<Grid2D<2, 2>, Grid2D<2, 3>>);
  static_assert(!grids_meet<TpGrid<4>, Grid2D<2, 2>>);
  static_assert(!grids_meet<Grid2D<2, 2>, Grid<Axis<Col, 2>, Axis<Row, 2>>>);
  using P = Partition<G, RowsOver<Pipeline>, ColsOver<Col>>;
  CHECK(P::layout == Layout{AxisList{0}, AxisList{2}, {}});
}

}  // namespace
}  // namespace partita
