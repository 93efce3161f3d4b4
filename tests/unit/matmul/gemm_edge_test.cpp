// SPDX-License-Identifier: Apache-2.0
// Products at the edges of their sizes, as they went wrong for users: k = 0, old NaN, fewer columns than ranks, 1×1.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "support/compare.hpp"
#include "support/fills.hpp"
#include "support/table_edges.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

constexpr auto no_c = [](index_t, index_t) { return 0.0; };

TEST_CASE("G01: K = 0 gives beta times C") {
  for_table({1, 1, 1, 1}, check_no_inner_dimension);
  for_table({4, 2, 2, 2}, check_no_inner_dimension);
  for_table({0, 3, 0, 0}, check_no_inner_dimension);
}

TEST_CASE("G02: beta = 0 lets no NaN and no infinity of the old C through") {
  for_table({4, 2, 2, 2}, check_old_result_unread);
  for_table({0, 3, 0, 0}, check_old_result_unread);
  // The comparison that these tests rely on sees one NaN.
  auto right = serial_product<double>(6, 6, 6, fill_a, fill_b);
  CHECK(fingerprint(right) == Fingerprint{-21, -849});
  CHECK(compare_exact(right, right).empty());
  auto wrong = right;
  wrong(3, 4) = nan;
  CHECK(!(fingerprint(wrong) == Fingerprint{-21, -849}));
  CHECK(!compare_exact(wrong, right).empty());
  CHECK(!compare_exact(right, wrong).empty());
}

TEST_CASE("G04: an inner dimension smaller than the grid") {
  for_table({3, 3, 2, 2}, check_small_inner_dimension);
  for_table({5, 4, 3, 2}, check_small_inner_dimension);
}

TEST_CASE("G06: a 1x1 product on many ranks") {
  const auto start = std::chrono::steady_clock::now();
  for_table({8, 3, 2, 2}, check_one_element);
  for_table({9, 0, 3, 2}, check_one_element);
  for_table({18, 0, 0, 0}, check_one_element);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(sanitized ? 60 : 5));
}

TEST_CASE("G10: no loss of accuracy from some size on") {
  // One compute thread a rank; all pairs of the table at each size.
  std::vector<index_t> sizes;
  for (const index_t n : {100, 200, 300, 400, 500}) {
    for (const index_t d : {-1, 0, 1}) sizes.push_back(n + d);
  }
  if (sanitized) sizes = {99, 100, 101};
  for (const index_t n : sizes) {
    const auto a = [](index_t i, index_t j) { return 2 * random_unit(11, i, j) - 1; };
    const auto b = [](index_t i, index_t j) { return 2 * random_unit(12, i, j) - 1; };
    // Tables of the values: the functions are costly, and called n³ times below.
    Matrix<double> va(Shape{n, n}), vb(Shape{n, n});
    Matrix<std::int32_t> ia(Shape{n, n}), ib(Shape{n, n}), ic(Shape{n, n});
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) {
        va(i, j) = a(i, j);
        vb(i, j) = b(i, j);
        ia(i, j) = static_cast<std::int32_t>(fill_a(i, j));
        ib(i, j) = static_cast<std::int32_t>(fill_b(i, j));
      }
    }
    Matrix<long double> reference(Shape{n, n});
    Matrix<double> scale(Shape{n, n});
    for (index_t i = 0; i < n; ++i) {
      for (index_t l = 0; l < n; ++l) {
        const long double x = va(i, l);
        const double magnitude = std::abs(va(i, l));
        const std::int32_t integer = ia(i, l);
        for (index_t j = 0; j < n; ++j) reference(i, j) += x * static_cast<long double>(vb(l, j));
        for (index_t j = 0; j < n; ++j) scale(i, j) += magnitude * std::abs(vb(l, j));
        for (index_t j = 0; j < n; ++j) ic(i, j) += integer * ib(l, j);
      }
    }
    const auto check = [&](const TableProduct& product) {
      const auto at = [](const auto& values) { return [&values](index_t i, index_t j) { return values(i, j); }; };
      const auto c = product.multiply(n, n, n, at(va), at(vb), no_c, 1.0, 0.0);
      Matrix<double> exact;
      if (n % 100 == 1) exact = product.multiply(n, n, n, at(ia), at(ib), no_c, 1.0, 0.0);
      if (product.rank != 0) return;  // the others hold the same copy
      double ratio = 0;
      bool equal = true;
      for (index_t i = 0; i < n; ++i) {
        for (index_t j = 0; j < n; ++j) {
          const auto error = static_cast<double>(std::abs(static_cast<long double>(c(i, j)) - reference(i, j)));
          ratio = std::max(ratio, error / (std::numeric_limits<double>::epsilon() * scale(i, j)));
          equal = equal && (n % 100 != 1 || exact(i, j) == ic(i, j));
        }
      }
      CAPTURE(n);
      CHECK(ratio <= 16);
      CHECK(ratio > 0);
      CHECK(equal);
    };
    for_table({3, 2, 2, 1}, check);
  }
}

TEST_CASE_TEMPLATE("G12: complex products", C, std::complex<double>, std::complex<float>) {
  using R = typename C::value_type;
  const auto f = [](index_t i, index_t j) { return C(static_cast<R>(i), static_cast<R>(j)); };
  const auto check = [&](const auto& grid, auto pair) {
    using P = decltype(pair);
    const auto a = from_function<C, P>(grid, {4, 4}, f);
    const auto aa = gather(matmul(a, a));
    CHECK(aa(0, 0) == C(0, 14));
    CHECK(aa(3, 3) == C(0, 50));
    C sum{};
    for (const C& x : aa.elements) sum += x;
    CHECK(sum == C(0, 368));
    const auto aha = gather(matmul(adjoint(a), a));
    CHECK(aha(0, 0) == C(14));
    CHECK(aha(3, 3) == C(50));
    CHECK(aha(0, 3) == C(14, 18));
    const auto aah = gather(matmul(a, adjoint(a)));
    CHECK(aah(3, 0) == C(14, -18));
  };
  on_ranks(4, [&](ThreadContext& context) { check(make_grid<Summa2D<2>>(context), Summa2D<2>{}); });
  on_ranks(8, [&](ThreadContext& context) { check(make_grid<Summa25D<2, 2>>(context), SplitKRight<2, 2>{}); });
}

TEST_CASE("G13: ranks outside the grid neither hang nor hold the others up") {
  const auto check = [](ThreadComm& world, int ranks, auto make) {
    auto part = world.subset(ranks);
    CHECK(part.has_value() == (world.rank() < ranks));
    if (part) {
      ThreadContext context(*std::move(part));
      const auto grid = make(context);
      using P = Partition<typename std::remove_cvref_t<decltype(grid)>::grid_type, RowsOver<Row>, ColsOver<Col>>;
      for (int round = 0; round < 20; ++round) {
        const auto a = from_function<double, P>(grid, {6, 6}, fill_a);
        const auto b = from_function<double, P>(grid, {6, 6}, fill_b);
        CHECK(fingerprint(gather(matmul(a, b))).sum == -21);
      }
    }
    world.barrier();
  };
  launch_threads(5, [&](ThreadComm& world) {
    check(world, 4, [](ThreadContext& context) { return make_grid<Summa2D<2>>(context); });
  });
  launch_threads(7, [&](ThreadComm& world) {
    check(world, 7, [](ThreadContext& context) { return make_grid<Summa25D<1, 7>>(context); });
  });
}

}  // namespace
}  // namespace partita::test
