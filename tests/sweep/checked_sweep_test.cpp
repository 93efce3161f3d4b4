// SPDX-License-Identifier: Apache-2.0
// The exact sweep's configurations, redistributions and block-cyclic arrays under CheckedComm: no false alarm, results
// exact, and the counts those of the schedules.

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "partita/comm/checked.hpp"
#include "partita/partition/policies.hpp"
#include "partita/redistribute/block_cyclic.hpp"
#include "partita/redistribute/redistribute.hpp"
#include "partita/schedule/count.hpp"
#include "support/draw.hpp"
#include "support/grids.hpp"

namespace partita {

using CheckedContext = Context<EigenBackend, CountingComm<CheckedComm<ThreadComm>>>;

// Found by the context's namespace.
Traffic touched(CheckedContext& context) { return context.comm().base().base().traffic(); }
CheckedComm<ThreadComm> communicator_for(CheckedContext*, ThreadComm comm) {
  return CheckedComm(std::move(comm), {std::chrono::seconds(20), true});
}

namespace {

using namespace partita::test;

struct Coverage {
  index_t total = 0;
  std::set<int> scalars;
  std::set<Algorithm> algorithms;
};

/// Runs the cases, with the scalars in turn, and closes the communicator: a call too many is an alarm, too.
void run(const std::vector<int>& extents, const std::vector<ProductCase>& cases, Coverage& coverage,
         Failures& failures) {
  const auto scalar = [](std::size_t i) { return static_cast<int>(i % 6); };
  const auto run_one = [&](ProcessGrid<CheckedContext>& grid, const ProductCase& c, std::size_t i) {
    const CaseResult found = run_case_of(scalar(i), grid, c);
    if (i + 1 == cases.size()) grid.context().comm().base().close();
    return found;
  };
  static_cast<void>(run_cases_by<CheckedContext>(extents, cases, run_one, failures));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    coverage.scalars.insert(scalar(i));
    coverage.algorithms.insert(cases[i].plan.plan.algorithm);
  }
  coverage.total += static_cast<index_t>(cases.size());
}

TEST_CASE("CheckedComm: no false alarm in the table's products and in random ones") {
  const std::vector<std::vector<int>> grids[] = {{{1}, {3}, {4}}, {{2, 2}, {2, 3}}, {{2, 2, 2}, {1, 2, 2}, {2, 1, 3}}};
  Coverage coverage;
  Failures failures;
  Draw draw(20260202);
  const auto may_keep = [](std::size_t i) { return i % 6 < 4; };  // whether the scalar of case i is none of 16 bits
  for (int axes = 1; axes <= 3; ++axes) {
    for (const auto& extents : grids[axes - 1]) {
      std::vector<ProductCase> cases;
      for (const TableRow& row : table_rows) {
        for (int i = 0; row.axes == axes && i < 36; ++i) {
          cases.push_back(draw_case(row.a, row.b, i % 4, may_keep(cases.size()), draw));
        }
      }
      run(extents, cases, coverage, failures);
    }
  }
  const auto layouts = all_layouts();
  for (const auto& extents : grids[2]) {
    std::vector<ProductCase> cases;
    while (cases.size() < 396) {
      const Layout& a = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      const Layout& b = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      if (!plan_of(a, b).valid()) continue;
      cases.push_back(draw_case(a, b, static_cast<int>(draw.between(0, 3)), may_keep(cases.size()), draw));
    }
    run(extents, cases, coverage, failures);
  }
  std::printf("checked sweep: %lld products\n", static_cast<long long>(coverage.total));
  INFO(failures.text());
  CHECK(failures.count() == 0);
  CHECK(coverage.total >= 2000);
  CHECK(coverage.scalars.size() == 6);
  CHECK(coverage.algorithms.size() == 4);
}

int place_of(index_t i, index_t j) { return static_cast<int>(31 * i + j + 1); }

/// Moves a matrix whose elements tell their places.
std::string check_exchange(CheckedContext& context, Shape shape, const Placement& from, const Placement& to) {
  const Exchange exchange(shape, from, to, context.rank());
  std::vector<int> in(static_cast<std::size_t>(exchange.held().size()));
  std::vector<int> out(static_cast<std::size_t>(exchange.wanted().size()));
  const View<int> before(in.data(), exchange.held().shape());
  const View<int> after(out.data(), exchange.wanted().shape());
  const Block held = exchange.held();
  const Block wanted = exchange.wanted();
  for (index_t i = 0; i < before.rows; ++i) {
    for (index_t j = 0; j < before.cols; ++j) before(i, j) = place_of(held.rows.begin + i, held.cols.begin + j);
  }
  const Traffic start = context.comm().traffic();
  detail::run_exchange<int>(context, exchange, before, after);
  const Traffic moved = context.comm().traffic() - start;
  const Count count = count_of(exchange);
  if (count.elements != moved.elements || count.messages != moved.messages) return "the schedule counts otherwise";
  for (index_t i = 0; i < after.rows; ++i) {
    for (index_t j = 0; j < after.cols; ++j) {
      if (after(i, j) != place_of(wanted.rows.begin + i, wanted.cols.begin + j)) return "an element is wrong";
    }
  }
  return {};
}

TEST_CASE("CheckedComm: no false alarm in redistributions") {
  const auto layouts = all_layouts();
  Failures failures;
  const auto check = [&](ProcessGrid<CheckedContext>& grid, Shape shape) {
    for (std::size_t pair = 0; pair < 49 * 49; pair += 11) {
      const Layout& from = layouts[pair / 49];
      const Layout& to = layouts[pair % 49];
      const std::string failure = check_exchange(grid.context(), shape, {from, grid.axes(), grid.extents(), {1, 2}},
                                                 {to, grid.axes(), grid.extents(), {2, 1}});
      if (!failure.empty()) {
        failures.add(layout_text(from, names_25d) + " to " + layout_text(to, names_25d) + ": " + failure);
      }
    }
    grid.context().comm().base().close();
  };
  on_grid<CheckedContext>({2, 2, 2}, [&](ProcessGrid<CheckedContext>& grid) { check(grid, {7, 9}); });
  on_grid<CheckedContext>({1, 2, 3}, [&](ProcessGrid<CheckedContext>& grid) { check(grid, {2, 13}); });
  INFO(failures.text());
  CHECK(failures.count() == 0);
}

/// A tensor out into a block-cyclic array, from there in under another partition, and out again.
template <class P, class Q, class Grid>
void round_trip(CheckedContext& context, const Grid& grid, const BlockCyclic& a) {
  const auto x = from_function<double, P>(grid, a.shape, [](index_t i, index_t j) { return place_of(i, j); });
  const Shape local = a.local_shape(context.rank());
  std::vector<double> first(static_cast<std::size_t>(local.size()));
  std::vector<double> second(first.size());
  const Traffic start = context.comm().traffic();
  to_block_cyclic(x, a, first.data(), local.rows);
  const Traffic moved = context.comm().traffic() - start;
  const CyclicExchange exchange(a, detail::placement_of<P>(x.grid().ranks(), {}), context.size(), context.rank(),
                                CyclicExchange::Direction::to_array);
  CHECK(count_of(exchange).elements == moved.elements);
  const auto y = from_block_cyclic<Q>(grid, a, first.data(), local.rows);
  for (index_t i = 0; i < y.local().rows; ++i) {
    for (index_t j = 0; j < y.local().cols; ++j) {
      REQUIRE(y.local()(i, j) == place_of(y.block().rows.begin + i, y.block().cols.begin + j));
    }
  }
  to_block_cyclic(y, a, second.data(), local.rows);
  CHECK(second == first);
}

TEST_CASE("CheckedComm: no false alarm in block-cyclic arrays") {
  launch_threads(6, [&](ThreadComm comm) {
    CheckedContext context(CountingComm(partita::communicator_for(nullptr, std::move(comm))));
    const auto line = make_grid<RowShard<>>(context, 6);
    const auto plane = make_grid<Summa2D<>>(context, 3, 2);
    for (const Shape shape : {Shape{13, 11}, Shape{1, 9}, Shape{0, 5}}) {
      for (index_t block = 1; block <= 4; ++block) {
        const BlockCyclic a{shape, block, 5 - block, 2, 3, 1, static_cast<int>(block) % 3, block % 2 == 0};
        round_trip<RowShard<>, ColumnShard<>>(context, line, a);
        round_trip<Replicated<>, RowShard<>>(context, line, a);
        round_trip<Summa2D<>, transposed_t<Summa2D<>>>(context, plane, a);
      }
    }
    context.comm().base().close();
  });
}

}  // namespace
}  // namespace partita
