// SPDX-License-Identifier: Apache-2.0
// Users' cases that move tensors: tiny matrices on many ranks, ranks that fail on the way.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "partita/redistribute/block_cyclic.hpp"
#include "support/failing_comm.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

/// Moves x to each of the policies and back; every stop must hold the same matrix.
template <class... Targets, class X, class Grid>
void visit_all(const X& x, const Grid& grid, double expected) {
  const auto visit = [&]<class P>(P*) {
    const auto there = redistribute<P>(x, grid);
    const auto back = redistribute<typename X::partition>(there, x.grid());
    CHECK(gather(there)(0, 0) == expected);
    CHECK(gather(back)(0, 0) == expected);
  };
  (visit(static_cast<Targets*>(nullptr)), ...);
}

template <class P, class Grid>
auto one_element(const Grid& grid, double value) {
  return from_function<double, P>(grid, {1, 1}, [value](index_t, index_t) { return value; });
}

TEST_CASE("G06: a 1x1 product on many ranks, redistributed to every other policy and back") {
  for (const auto& extents : {std::pair{2, 2}, std::pair{3, 1}, std::pair{3, 2}}) {
    const int q = extents.first;
    const int d = extents.second;
    const auto start = std::chrono::steady_clock::now();
    on_ranks(q * q * d, [q, d](ThreadContext& context) {
      const auto line = make_grid<Replicated<>>(context, context.size());
      const auto layers = make_grid_of<Grid<Axis<Depth, dynamic>, Axis<Row, dynamic>, Axis<Col, dynamic>>>(
          context, std::array{d, q, q});
      using W = Summa25DWeight<>;
      const auto product = matmul(one_element<Summa25D<>>(layers, 6), one_element<W>(layers, 7));
      CHECK(gather(product)(0, 0) == 42);
      CHECK(product.local().size() == product.block().size());
      visit_all<Replicated<>, RowShard<>, ColumnShard<>>(product, line, 42);
      visit_all<Summa25D<>, W, SplitKLeft<>, transposed_t<SplitKLeft<>>>(product, layers, 42);
      const auto rows = matmul(one_element<ColumnShard<>>(line, 6), one_element<RowShard<>>(line, 7));
      visit_all<Summa25D<>, W, SplitKLeft<>>(rows, layers, 42);
      visit_all<RowShard<>, ColumnShard<>>(rows, line, 42);
    });
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  }
}

void several_moves(ThreadContext& context) {
  const auto line = make_grid<RowShard<>>(context, 4);
  const auto plane = make_grid<Summa2D<>>(context, 2, 2);
  const auto rows = from_function<double, RowShard<>>(line, {7, 5}, fill_a);
  const auto cols = redistribute<ColumnShard<>>(rows);
  const auto square = redistribute<Summa2D<>>(cols, plane);
  const BlockCyclic array{{7, 5}, 2, 1, 2, 2, 0, 1, false};
  const Shape mine = array.local_shape(context.rank());
  std::vector<double> local(static_cast<std::size_t>(mine.size()) + 1);
  to_block_cyclic(square, array, local.data(), mine.rows > 0 ? mine.rows : 1);
  const auto again = from_block_cyclic<RowShard<>>(line, array, local.data(), mine.rows > 0 ? mine.rows : 1);
  // Not inside CHECK, which would swallow what they throw.
  const auto moved = gather(again);
  const auto expected = gather(rows);
  CHECK(moved.elements == expected.elements);
}

TEST_CASE("F05: a rank that throws inside a redistribution frees its peers") {
  int operations = 0;
  on_ranks(4, [&](ThreadContext& context) {
    RecordingSink sink;
    const SinkScope scope(sink);
    several_moves(context);
    if (context.rank() == 2) operations = static_cast<int>(sink.events.size());
  });
  CHECK(operations > 20);
  for (int k = 0; k < operations; ++k) {
    CAPTURE(k);
    std::atomic<int> left{0};
    std::string error = "none";
    const auto start = std::chrono::steady_clock::now();
    try {
      on_ranks(4, [&](ThreadContext& context) {
        if (context.rank() == 2) {
          ThrowingSink sink(k);
          const SinkScope scope(sink);
          several_moves(context);
          return;
        }
        try {
          several_moves(context);
        } catch (const PeerFailed& failure) {
          if (failure.origin == 2) ++left;
          throw;
        }
      });
    } catch (const std::exception& e) {
      error = e.what();
    }
    CHECK(error == "boom");
    CHECK(left == 3);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  }
  on_ranks(4, several_moves);
}

TEST_CASE("F07: memory that one rank cannot have for a redistributed tensor is an error on all") {
  launch_threads(4, [](ThreadComm& comm) {
    using Ctx = Context<EigenBackend, FailingComm<ThreadComm>>;
    Ctx context{FailingComm<ThreadComm>(std::move(comm))};
    const auto grid = make_grid<RowShard<>>(context, 4);
    const auto x = from_function<double, RowShard<>>(grid, {6, 6}, fill_a);
    const index_t before = context.comm().allocations().left;
    if (context.rank() == 3) context.comm().allocations().left = 0;
    CHECK_THROWS_AS((void)redistribute<ColumnShard<>>(x), CapacityError);
    context.comm().allocations().left = before;
    CHECK(gather(redistribute<ColumnShard<>>(x)).elements == gather(x).elements);
  });
}

}  // namespace
}  // namespace partita::test
