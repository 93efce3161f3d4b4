// SPDX-License-Identifier: Apache-2.0
// Products of operands that lie anywhere: every route, against the serial product, with what was predicted to move.
#include "partita/matmul/across.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

#include "partita/comm/checked.hpp"
#include "partita/partita.hpp"
#include "support/across_texts.hpp"
#include "support/compare.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

using Ctx = Context<EigenBackend, CountingComm<ThreadComm>>;

template <class F>
void on_counted_ranks(int ranks, F f) {
  launch_threads(ranks, [&](ThreadComm& comm) {
    Ctx context{CountingComm<ThreadComm>(std::move(comm))};
    f(context);
  });
}

template <class P, class Q, class R, class T>
void check_route(Ctx& context, const auto& grid_a, const auto& grid_b, const auto& grid_c, Shape mn, index_t k,
                 const MatmulOptions& options, int* routes) {
  const auto in = [](auto fill) {
    return [fill](index_t i, index_t j) { return static_cast<T>(static_cast<accumulate_t<T>>(fill(i, j))); };
  };
  const auto a = from_function<T, P>(grid_a, {mn.rows, k}, in(fill_a));
  const auto b = from_function<T, Q>(grid_b, {k, mn.cols}, in(fill_b));
  auto c = from_function<T, R>(grid_c, mn, in(fill_c));
  const RouteCosts costs = across_costs(c, a, b, options);
  const Route route = costs.best();
  ++routes[static_cast<int>(route)];
  context.comm().barrier();
  const Traffic before = context.comm().traffic();
  matmul_across_into(c, a, b, 2, 1, options);
  const Traffic moved = context.comm().traffic() - before;
  double total = 0;  // of all ranks: what the costs said
  View<double> sum(&total, 1, 1, 1);
  const double own = static_cast<double>(moved.elements);
  context.comm().template all_reduce<double>(View<const double>(&own, 1, 1, 1), sum).wait();
  const index_t predicted[] = {costs.rule, costs.panels, costs.split_k};
  CHECK(static_cast<index_t>(total) == predicted[static_cast<int>(route)]);
  const auto found = gather(c);
  index_t wrong = 0;
  for (index_t i = 0; i < mn.rows; ++i) {
    for (index_t j = 0; j < mn.cols; ++j) {
      index_t sum_k = fill_c(i, j);
      for (index_t l = 0; l < k; ++l) sum_k += 2 * fill_a(i, l) * fill_b(l, j);
      if (static_cast<double>(static_cast<accumulate_t<T>>(found(i, j))) != static_cast<double>(sum_k)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("from one-dimensional blocks to a square grid and back, uneven and empty, by every route") {
  int routes[3] = {};
  on_counted_ranks(6, [&](Ctx& context) {
    int own[3] = {};
    const auto line = make_grid<ColumnShard<>>(context, 6);
    const auto plane = make_grid<Grid2D<>>(context, 2, 3);
    const auto tall = make_grid<Grid2D<>>(context, 3, 2);
    using Columns = ColumnShard<>;
    using Rows = RowShard<>;
    using Plane = Summa2D<>;
    using RowsOnly = Partition<Grid2D<>, RowsOver<Row>, ColsOver<>>;
    for (const Shape mn : {Shape{13, 11}, Shape{1, 40}, Shape{4, 3}, Shape{2, 2}}) {
      for (const index_t k : {index_t{1}, index_t{9}, index_t{300}}) {
        for (const MatmulOptions& options : {MatmulOptions{}, MatmulOptions{.panel_width = 4, .lookahead = 3}}) {
          check_route<Columns, Columns, Plane, double>(context, line, line, plane, mn, k, options, own);
          check_route<Rows, Columns, Plane, float>(context, line, line, tall, mn, k, options, own);
          check_route<Plane, Plane, Plane, double>(context, plane, tall, plane, mn, k, options, own);
          check_route<Plane, Plane, Columns, float>(context, plane, plane, line, mn, k, options, own);
          check_route<Columns, Rows, Rows, double>(context, line, line, line, mn, k, options, own);
          check_route<Plane, Rows, RowsOnly, double>(context, tall, line, plane, mn, k, options, own);
          // A whole copy on every rank: of each panel, and of each cut of k, a part of the own block is read in place.
          check_route<Replicated<>, Columns, Plane, double>(context, line, line, plane, mn, k, options, own);
        }
        check_route<Columns, Rows, Plane, bfloat16>(context, line, line, plane, {5, 6}, 3, {}, own);
      }
    }
    if (context.rank() == 0) std::copy_n(own, 3, routes);
  });
  CHECK(routes[static_cast<int>(Route::rule)] > 10);
  CHECK(routes[static_cast<int>(Route::panels)] > 10);
  CHECK(routes[static_cast<int>(Route::split_k)] > 10);
}

TEST_CASE("operands that are views: transposed and adjoint, straight from where they lie") {
  on_counted_ranks(4, [](Ctx& context) {
    const auto line = make_grid<ColumnShard<>>(context, 4);
    const auto plane = make_grid<Grid2D<>>(context, 2, 2);
    using Z = std::complex<double>;
    const auto fill = [](index_t i, index_t j) {
      return Z(static_cast<double>(fill_a(i, j)), static_cast<double>(fill_b(i, j)));
    };
    const auto a = from_function<Z, ColumnShard<>>(line, {7, 5}, fill);
    const auto b = from_function<Z, RowShard<>>(line, {6, 7}, fill);
    const auto c = matmul_across<Summa2D<>>(plane, adjoint(a), transposed(b));
    const auto found = gather(c);
    REQUIRE(found.shape == Shape{5, 6});
    for (index_t i = 0; i < 5; ++i) {
      for (index_t j = 0; j < 6; ++j) {
        Z wanted = 0;
        for (index_t l = 0; l < 7; ++l) wanted += std::conj(fill(l, i)) * fill(j, l);
        CHECK(found(i, j) == wanted);
      }
    }
  });
}

TEST_CASE("alpha = 0 reads no operand, beta = 0 no old value; k = 0 gives beta C") {
  on_counted_ranks(4, check_factors_across<Ctx>);
}

TEST_CASE("errors come before any write, on all ranks, and the communicator stays usable") {
  on_counted_ranks(4, check_errors_across<Ctx>);
}

TEST_CASE("nothing moves where m, n or k is 0, and nothing is predicted to") {
  on_counted_ranks(4, check_nothing_across<Ctx>);
}

TEST_CASE("under CheckedComm, ranks that come with different products are all told, and go on") {
  using CheckedContext = Context<EigenBackend, CheckedComm<ThreadComm>>;
  launch_threads(4, [](ThreadComm& comm) {
    CheckedContext context{CheckedComm<ThreadComm>(std::move(comm), {std::chrono::seconds(20), true})};
    const auto line = make_grid<ColumnShard<>>(context, 4);
    const auto plane = make_grid<Grid2D<>>(context, 2, 2);
    const auto a = from_function<double, ColumnShard<>>(line, {8, 8}, fill_a);
    for (const index_t k : {8, 400}) {  // by panels, with k split
      const auto left = from_function<double, ColumnShard<>>(line, {8, k}, fill_a);
      const auto right = from_function<double, RowShard<>>(line, {k, 8}, fill_b);
      auto c = from_function<double, Summa2D<>>(plane, {8, 8}, fill_c);
      const bool guilty = context.rank() == 2;
      CHECK_THROWS_AS(matmul_across_into(c, left, right, guilty ? 3 : 1, 0), CollectiveMismatch);
      CHECK_THROWS_AS(matmul_across_into(c, left, right, guilty ? 0 : 1, 0), CollectiveMismatch);
      CHECK(gather(c).elements == gather(from_function<double, Summa2D<>>(plane, {8, 8}, fill_c)).elements);
      matmul_across_into(c, left, right);
      CHECK(gather(c).shape == Shape{8, 8});
    }
  });
}

/// Multiplies like Eigen until it is told not to.
struct BreakingKernel : EigenKernel {
  template <class T>
  void gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
    if (broken) throw std::runtime_error("the kernel broke");
    EigenKernel::gemm(alpha, a, b, c);
  }
  bool broken = false;
};

TEST_CASE("a rank that fails while it multiplies: its peers are told why") {
  using BreakingContext = Context<CpuBackend<BreakingKernel>, ThreadComm>;
  std::atomic<int> told{0};
  CHECK_THROWS_WITH_AS(launch_threads(4,
                                      [&](ThreadComm& comm) {
                                        BreakingKernel kernel;
                                        kernel.broken = comm.rank() == 1;
                                        BreakingContext context(std::move(comm), CpuBackend<BreakingKernel>(kernel));
                                        const auto line = make_grid<ColumnShard<>>(context, 4);
                                        const auto plane = make_grid<Grid2D<>>(context, 2, 2);
                                        const auto a = from_function<double, ColumnShard<>>(line, {8, 8}, fill_a);
                                        auto c = zeros<double, Summa2D<>>(plane, {8, 8});
                                        try {
                                          for (int i = 0; i < 3; ++i) {
                                            matmul_across_into(c, a, a, 1, 0, {.panel_width = 2});
                                          }
                                        } catch (const PeerFailed& error) {
                                          if (std::string(error.what()).find("the kernel broke") != std::string::npos)
                                            ++told;
                                          throw;
                                        }
                                      }),
                       "the kernel broke", std::runtime_error);
  CHECK(told == 3);
}

}  // namespace
}  // namespace partita::test
