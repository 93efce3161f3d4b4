// SPDX-License-Identifier: Apache-2.0
// Products at the edges of their sizes, as they went wrong for users: k = 0, old NaN, fewer columns than ranks, 1×1.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "support/compare.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

constexpr auto no_c = [](index_t, index_t) { return 0.0; };
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

/// The product of the integer fills, C0 being `c0` everywhere.
Matrix<double> fill_product(const TableProduct& product, index_t m, index_t n, index_t k, double c0 = 0) {
  return product.multiply(m, n, k, fill_a, fill_b, [c0](index_t, index_t) { return c0; }, 1.0, 0.0);
}

TEST_CASE("G01: K = 0 gives beta times C") {
  const auto check = [](const TableProduct& product) {
    for (const double beta : {0.0, 1.0, -2.5}) {
      const auto c0 = [beta](index_t i, index_t j) { return beta == 0 ? nan : static_cast<double>(fill_c(i, j)); };
      const auto c = product.multiply(7, 11, 0, fill_a, fill_b, c0, 1.0, beta);
      bool right = c.shape == Shape{7, 11};
      for (index_t i = 0; i < 7; ++i) {
        for (index_t j = 0; j < 11; ++j) {
          const double wanted = beta == 0 ? 0.0 : beta * static_cast<double>(fill_c(i, j));
          right = right && c(i, j) == wanted && (beta != 0 || !std::signbit(c(i, j)));
        }
      }
      CHECK(right);
      if (beta == 1) CHECK(fingerprint(c).sum == -3);
    }
  };
  for_table({1, 1, 1, 1}, check);
  for_table({4, 2, 2, 2}, check);
  for_table({0, 3, 0, 0}, check);
}

TEST_CASE("G02: beta = 0 lets no NaN and no infinity of the old C through") {
  for (const double old : {nan, inf, -inf}) {
    const auto check = [old](const TableProduct& product) {
      const auto c = fill_product(product, 6, 6, 6, old);
      CHECK(fingerprint(c) == Fingerprint{-21, -849});
      CHECK(c(0, 0) == 13);
      CHECK(c(5, 5) == -36);
    };
    for_table({4, 2, 2, 2}, check);
    for_table({0, 3, 0, 0}, check);
  }
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
  const auto check = [](const TableProduct& product) {
    const auto c = fill_product(product, 6, 6, 2);
    CHECK(fingerprint(c) == Fingerprint{-6, -246});
    const double first[] = {8, -17, 3, 5, 7, -18};
    for (index_t j = 0; j < 6; ++j) CHECK(c(0, j) == first[j]);
  };
  for_table({3, 3, 2, 2}, check);
  for_table({5, 4, 3, 2}, check);
}

TEST_CASE("G06: a 1x1 product on many ranks") {
  const auto start = std::chrono::steady_clock::now();
  const auto check = [](const TableProduct& product) {
    const auto six = [](index_t, index_t) { return 6.0; };
    const auto seven = [](index_t, index_t) { return 7.0; };
    const auto c = product.multiply(1, 1, 1, six, seven, no_c, 1.0, 0.0);
    CHECK(c.shape == Shape{1, 1});
    CHECK(c(0, 0) == 42);
    // Who owns nothing says so: one rank along each axis that cuts holds the element.
    bool first = true;
    for (const AxisList& axes : {product.a.rows, product.a.cols}) {
      for (const int axis : axes) first = first && product.coordinates[static_cast<std::size_t>(axis)] == 0;
    }
    CHECK(product.a_local.size() == (first ? 1 : 0));
  };
  for_table({8, 3, 2, 2}, check);
  for_table({9, 0, 3, 2}, check);
  for_table({18, 0, 0, 0}, check);
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
