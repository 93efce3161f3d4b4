// SPDX-License-Identifier: Apache-2.0
// Redistribution: every pair of partitions over three axes, bitwise; counts equal to what the communicator sees.

#include <doctest/doctest.h>

#include "partita/partition/policies.hpp"
#include "partita/redistribute/redistribute.hpp"
#include "partita/schedule/count.hpp"
#include "partita/tensor/gather.hpp"
#include "support/exchange_case.hpp"
#include "support/grids.hpp"

using namespace partita;
using namespace partita::test;

TEST_CASE("all 2401 pairs of partitions over three axes, uneven, empty and with units") {
  struct Setting {
    std::vector<int> extents;
    Shape shape;
    Units units;
  };
  const Setting settings[] = {{{2, 2, 2}, {7, 9}, {}}, {{1, 2, 3}, {2, 13}, {1, 3}}, {{3, 2, 1}, {11, 1}, {2, 1}}};
  Failures failures;
  for (const Setting& setting : settings) {
    on_grid<CountedContext>(setting.extents, [&](ProcessGrid<CountedContext>& grid) {
      for (const Layout& from : all_layouts()) {
        for (const Layout& to : all_layouts()) {
          const Placement before{from, grid.axes(), grid.extents(), setting.units};
          const Placement after{to, grid.axes(), grid.extents(), {setting.units.cols, 1}};
          const std::string failure = check_exchange<std::int32_t>(grid.context(), setting.shape, before, after);
          if (!failure.empty()) {
            failures.add(layout_text(from, names_25d) + " to " + layout_text(to, names_25d) + ": " + failure);
          }
        }
      }
    });
  }
  INFO(failures.text());
  CHECK(failures.count() == 0);
}

TEST_CASE("between one axis and three: the partitions of a line, from and to all of them") {
  constexpr Layout line_layouts[] = {Replicated<>::layout, RowShard<>::layout, ColumnShard<>::layout};
  Failures failures;
  on_grid<CountedContext>({2, 1, 3}, [&](ProcessGrid<CountedContext>& grid) {
    const AxisList line_axes{0};
    const AxisValues line_extents{6};
    const auto check = [&](const Placement& from, const Placement& to, const std::string& what) {
      for (const Shape shape : {Shape{7, 9}, Shape{1, 4}, Shape{0, 3}}) {
        const std::string failure = check_exchange<std::int64_t>(grid.context(), shape, from, to);
        if (!failure.empty()) failures.add(what + ", " + to_string(shape) + ": " + failure);
      }
    };
    for (const Layout& on_line : line_layouts) {
      const Placement line{on_line, line_axes, line_extents, {2, 1}};
      for (const Layout& other : line_layouts) {
        check(line, {other, line_axes, line_extents, {1, 3}}, "line to line");
      }
      for (const Layout& spatial : all_layouts()) {
        const Placement space{spatial, grid.axes(), grid.extents(), {1, 2}};
        check(line, space, "line to " + layout_text(spatial, names_25d));
        check(space, line, layout_text(spatial, names_25d) + " to line");
      }
    }
  });
  INFO(failures.text());
  CHECK(failures.count() == 0);
}

TEST_CASE("R01: an uneven dimension is sharded and gathered without padding") {
  for (const int p : {3, 4, 8}) {
    launch_threads(p, [p](ThreadComm& comm) {
      CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
      const auto grid = make_grid<Replicated<>>(context, p);
      const auto value = [](index_t i, index_t j) { return static_cast<double>(10 * i + j); };
      const auto whole = from_function<double, Replicated<>>(grid, {5, 10}, value);
      const auto rows = redistribute<RowShard<>>(whole);
      const auto cols = redistribute<ColumnShard<>>(whole);
      CHECK(gather(redistribute<Replicated<>>(rows)).elements == gather(whole).elements);
      CHECK(gather(redistribute<Replicated<>>(cols)).elements == gather(whole).elements);
      CHECK(redistribute<Replicated<>>(rows).local().shape() == Shape{5, 10});
      double local_rows = static_cast<double>(rows.local().rows);
      context.comm().all_reduce(row_view<const double>(&local_rows, 1), row_view(&local_rows, 1), ReduceOp::sum).wait();
      CHECK(local_rows == 5);
    });
  }
}

namespace {

template <class T>
void between_rows_and_columns() {
  const auto value = [](index_t i, index_t j) { return static_cast<T>(5 * i + j); };
  for (const int p : {3, 6}) {
    launch_threads(p, [&](ThreadComm& comm) {
      CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
      const auto grid = make_grid<RowShard<>>(context, p);
      const auto rows = from_function<T, RowShard<>>(grid, {7, 5}, value);
      const auto expected = gather(rows).elements;
      const Traffic before = context.comm().traffic();
      const auto cols = redistribute<ColumnShard<>>(rows);
      const Traffic moved = context.comm().traffic() - before;
      const Block mine = cols.block();
      const Block had = rows.block();
      CHECK(moved.elements == mine.size() - intersect(mine, had).size());
      CHECK(moved.bytes == moved.elements * static_cast<index_t>(sizeof(T)));
      CHECK(gather(cols).elements == expected);
      CHECK(gather(redistribute<RowShard<>>(cols)).elements == expected);
    });
  }
  launch_threads(4, [&](ThreadComm& comm) {
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
    const auto line = make_grid<RowShard<>>(context, 4);
    const auto plane = make_grid<Summa2D<>>(context, 2, 2);
    const auto rows = from_function<T, RowShard<>>(line, {7, 5}, value);
    const auto expected = gather(rows).elements;
    const auto cols = redistribute<ColumnShard<>>(rows);
    const auto square = redistribute<Summa2D<>>(cols, plane);
    const auto whole = redistribute<Replicated<>>(square, line);
    const auto back = redistribute<RowShard<>>(whole);
    CHECK(gather(cols).elements == expected);
    CHECK(gather(square).elements == expected);
    CHECK(gather(whole).elements == expected);
    CHECK(gather(back).elements == expected);
  });
}

}  // namespace

TEST_CASE("R04: between row and column layouts when sizes are no multiples of the ranks") {
  between_rows_and_columns<std::uint8_t>();
  between_rows_and_columns<std::int16_t>();
  between_rows_and_columns<float>();
  between_rows_and_columns<double>();
}

TEST_CASE("a grid of another context is refused on all ranks") {
  launch_threads(2, [](ThreadComm& comm) {
    auto part = comm.subset(2);
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
    CountedContext other(CountingComm<ThreadComm>(std::move(*part)));
    const auto x = zeros<float, RowShard<2>>(make_grid<RowShard<2>>(context), {3, 3});
    CHECK_THROWS_AS((void)redistribute<RowShard<2>>(x, make_grid<RowShard<2>>(other)), GridError);
    CHECK(gather(redistribute<ColumnShard<2>>(x)).elements == std::vector<float>(9));
  });
}
