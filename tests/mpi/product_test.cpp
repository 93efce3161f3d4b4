// SPDX-License-Identifier: Apache-2.0
// The exact sweep under MPI: integer data, every result equal to the serial one bit for bit, and three counts equal:
// of the schedule, of the calls' arguments, of what was moved. Panels are read in place, broadcast with copies, cut
// into short messages, or go to several nodes. PARTITA_MPI_CASES configurations a number of ranks (360).
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "mpi_main.hpp"
#include "partita/comm/counting.hpp"
#include "partita/context.hpp"
#include "support/backend.hpp"

namespace partita {
using MpiSweepContext = Context<test::TestBackend, CountingComm<MpiComm>>;
inline Traffic touched(MpiSweepContext& context) { return context.comm().base().traffic(); }
}  // namespace partita

#include "support/draw.hpp"
#include "support/grids.hpp"
#include "support/threads.hpp"

using namespace partita;
using namespace partita::test;

namespace {

int wanted_cases() {
  const char* text = std::getenv("PARTITA_MPI_CASES");
  return text == nullptr ? 360 : std::atoi(text);
}

/// The grids of 1, 2 and 3 axes on a number of ranks.
std::vector<std::vector<int>> grids_of(int ranks) {
  switch (ranks) {
    case 1:
      return {{1}, {1, 1}, {1, 1, 1}};
    case 2:
      return {{2}, {2, 1}, {1, 2, 1}};
    case 3:
      return {{3}, {1, 3}, {3, 1, 1}};
    case 4:
      return {{4}, {2, 2}, {1, 2, 2}, {2, 1, 2}};
    case 6:
      return {{6}, {2, 3}, {3, 1, 2}, {1, 2, 3}};
    case 8:
      return {{8}, {4, 2}, {2, 2, 2}};
    case 9:
      return {{9}, {3, 3}, {1, 3, 3}};
    case 12:
      return {{12}, {3, 4}, {3, 2, 2}, {2, 2, 3}};
    default:
      return {{ranks}, {ranks, 1}, {1, 1, ranks}};
  }
}

/// A row of the table of as many axes, or any valid pair of partitions over three axes.
std::pair<Layout, Layout> draw_layouts(int axes, Draw& draw) {
  static constexpr auto all = all_layouts();
  if (axes < 3 || draw.chance(25)) {
    for (;;) {
      const TableRow& row = table_rows[draw.between(0, static_cast<index_t>(std::size(table_rows)) - 1)];
      if (row.axes == axes) return {row.a, row.b};
    }
  }
  for (;;) {
    const Layout& a = all[static_cast<std::size_t>(draw.between(0, 48))];
    const Layout& b = all[static_cast<std::size_t>(draw.between(0, 48))];
    if (plan_of(a, b).valid()) return {a, b};
  }
}

/// The ways of moving.
constexpr int mode_count = 4;
MpiOptions mode_options(int mode) {
  MpiOptions options = test_options();
  if (mode == 1) options.arena = 0;
  if (mode == 2) options.chunk = 5;
  if (mode == 3) options.ranks_per_node = 2;
  return options;
}

}  // namespace

TEST_CASE("exact sweep: table rows and pairs of partitions, in place, copied, in short messages, over several nodes") {
  const int ranks = mpi_world().size();
  const auto grids = grids_of(ranks);
  const int each = std::max(1, wanted_cases() / (mode_count * static_cast<int>(grids.size())));
  Draw draw(20270101U + static_cast<unsigned>(ranks));
  int total = 0;
  index_t panels = 0;
  std::string failures;
  int failed = 0;
  index_t in_place = 0;
  index_t copied = 0;
  for (int mode = 0; mode < mode_count; ++mode) {
    for (const auto& extents : grids) {
      const auto axes = static_cast<int>(extents.size());
      MpiSweepContext context{CountingComm<MpiComm>(MpiComm(mpi_world().native(), mode_options(mode)))};
      AxisValues values{};
      for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
      ProcessGrid<MpiSweepContext> grid(context, axis_names(axes), values);
      for (int i = 0; i < each; ++i, ++total) {
        const auto [a, b] = draw_layouts(axes, draw);
        const ProductCase c = draw_case(a, b, static_cast<int>(draw.between(0, 3)), total % 6 < 4, draw);
        const CaseResult found = run_case_of(total % 6, grid, c);
        panels += found.panels;
        if (found.failure.empty() || ++failed > 3) continue;
        failures += "rank " + std::to_string(context.rank()) + " of " + detail::grid_text(axis_names(axes), values) +
                    ", mode " + std::to_string(mode) + ": " + describe(c, axis_names(axes)) + ": " + found.failure +
                    "\n";
      }
      in_place += context.comm().base().statistics().panels_in_place;
      copied += context.comm().base().statistics().panels_copied;
    }
  }
  INFO(failures);
  CHECK(failed == 0);
  if (mpi_world().rank() == 0) {
    std::printf("exact sweep on %d ranks: %d configurations, %lld panels; rank 0 read %lld in place, received %lld\n",
                ranks, total, static_cast<long long>(panels), static_cast<long long>(in_place),
                static_cast<long long>(copied));
  }
  if (ranks > 1) {
    CHECK(in_place > 0);
    CHECK(copied > 0);
  }
}

namespace {

double a_value(index_t i, index_t j) { return static_cast<double>((3 * i + 5 * j) % 7 - 3); }
double b_value(index_t i, index_t j) { return static_cast<double>((2 * i + 7 * j) % 9 - 4); }

/// Tensors of the context's memory: their blocks are lent where they stand, and overwritten as soon as matmul returns.
template <class P, class Handle>
void check_pair(const Handle& grid, index_t m, index_t n, index_t k) {
  auto a = stored<float, typename P::a, P::a_transposed>(grid, {m, k}, a_value);
  auto b = stored<float, typename P::b, P::b_transposed>(grid, {k, n}, b_value);
  auto c = from_function<float, typename P::result>(grid, {m, n}, [](index_t, index_t) { return 1.0; });
  MatmulOptions options;
  options.panel_width = 2;
  matmul_into(c, op<P::a_transposed>(a), op<P::b_transposed>(b), 1.0F, 2.0F, options);
  for (const View<float> v : {a.local(), b.local()}) {
    for (index_t i = 0; i < v.rows; ++i) std::fill_n(v.row(i), v.cols, 1e6F);
  }
  const Matrix<float> whole = gather(c);
  index_t wrong = 0;
  for (index_t i = 0; i < m; ++i) {
    for (index_t j = 0; j < n; ++j) {
      double wanted = 2;
      for (index_t l = 0; l < k; ++l) wanted += a_value(i, l) * b_value(l, j);
      if (static_cast<double>(whole(i, j)) != wanted) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every pair of the table, with tensors in memory that peers reach") {
  const auto grids = grids_of(mpi_world().size());
  MpiSweepContext context{CountingComm<MpiComm>(MpiComm(mpi_world().native(), test_options()))};
  const auto grid_1d = make_grid<TpGrid<>>(context, grids[0][0]);
  const auto grid_2d = make_grid<Grid2D<>>(context, grids[1][0], grids[1][1]);
  const auto grid_25d = make_grid<Grid25D<>>(context, grids[2][0], grids[2][1], grids[2][2]);
  const int repeats = wanted_cases() >= 100 ? 20 : 1;
  for (int i = 0; i < repeats; ++i) {
    const index_t m = 13 + i, n = 17, k = 29 - i;
    for_pairs_1d([&](auto pair) { check_pair<decltype(pair)>(grid_1d, m, n, k); });
    for_pairs_2d([&](auto pair) { check_pair<decltype(pair)>(grid_2d, m, n, k); });
    for_pairs_25d([&](auto pair) { check_pair<decltype(pair)>(grid_25d, m, n, k); });
  }
  CHECK(context.comm().base().statistics().loans_staged == 0);
}

TEST_CASE("G12: complex products, and their adjoints") {
  const int ranks = mpi_world().size();
  if (ranks != 4 && ranks != 8) return;
  MpiSweepContext context{CountingComm<MpiComm>(MpiComm(mpi_world().native(), test_options()))};
  const auto check = [](const auto& grid, auto zero, auto policy, auto weight) {
    using Z = decltype(zero);
    using R = typename Z::value_type;
    using P = typename decltype(policy)::type;
    using W = typename decltype(weight)::type;
    const auto f = [](index_t i, index_t j) { return Z(static_cast<R>(i), static_cast<R>(j)); };
    const auto a = from_function<Z, P>(grid, {4, 4}, f);
    const auto w = from_function<Z, W>(grid, {4, 4}, f);
    const Matrix<Z> square = gather(matmul(a, w));
    CHECK(square(0, 0) == Z(0, 14));
    CHECK(square(3, 3) == Z(0, 50));
    Z sum(0);
    for (const Z& z : square.elements) sum += z;
    CHECK(sum == Z(0, 368));
    const Matrix<Z> gram = gather(matmul(adjoint(a), a));
    CHECK(gram(0, 0) == Z(14));
    CHECK(gram(3, 3) == Z(50));
    CHECK(gram(0, 3) == Z(14, 18));
  };
  if (ranks == 4) {
    const auto grid = make_grid<Summa2D<2>>(context);
    using P = std::type_identity<Summa2D<2>>;
    check(grid, std::complex<double>(), P{}, P{});
    check(grid, std::complex<float>(), P{}, P{});
  } else {
    const auto grid = make_grid<Summa25D<2, 2>>(context);
    using P = std::type_identity<Summa25D<2, 2>>;
    using W = std::type_identity<Summa25DWeight<2, 2>>;
    check(grid, std::complex<double>(), P{}, W{});
    check(grid, std::complex<float>(), P{}, W{});
  }
}
