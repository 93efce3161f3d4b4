// SPDX-License-Identifier: Apache-2.0
// Real data against a wider type: the error bound of every element and the quality of the whole; and the judge itself.
#include <doctest/doctest.h>

#include <complex>
#include <limits>
#include <string>

#include "support/compare.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

template <class T>
Matrix<T> random_matrix(Shape shape, std::uint64_t seed) {
  Matrix<T> x(shape);
  for (index_t i = 0; i < shape.rows; ++i) {
    for (index_t j = 0; j < shape.cols; ++j) {
      const auto draw = [&](std::uint32_t lane) {
        return static_cast<real_of_t<T>>(2 * random_unit(seed, i, j, lane) - 1);
      };
      if constexpr (is_complex_v<T>) {
        x(i, j) = T(draw(0), draw(1));
      } else {
        x(i, j) = draw(0);
      }
    }
  }
  return x;
}

template <class T>
RealProduct<T> random_product(index_t m, index_t n, index_t k, T alpha, T beta) {
  return {random_matrix<T>({m, k}, 1), random_matrix<T>({k, n}, 2), random_matrix<T>({m, n}, 3), alpha, beta};
}

/// The product in T itself, added up in order.
template <class T>
Matrix<T> plain(const RealProduct<T>& x) {
  Matrix<T> c(Shape{x.a.shape.rows, x.b.shape.cols});
  for (index_t i = 0; i < c.shape.rows; ++i) {
    for (index_t j = 0; j < c.shape.cols; ++j) {
      T sum(0);
      for (index_t l = 0; l < x.a.shape.cols; ++l) sum += x.a(i, l) * x.b(l, j);
      c(i, j) = x.alpha * sum + x.beta * x.c0(i, j);
    }
  }
  return c;
}

TEST_CASE("the judge sees NaN, infinity, a wrong shape, an untouched output and one wrong bit too many") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto x = random_product<double>(7, 9, 40, 1.5, -0.5);
  const auto right = plain(x);
  const auto verdict = judge(x, right, 4);
  CHECK(verdict.failure.empty());
  CHECK(verdict.bound > 0);
  CHECK(verdict.quality > 0);
  const auto spoilt = [&](double value) {
    auto wrong = right;
    wrong(6, 8) = value;
    return judge(x, wrong, 4).failure;
  };
  CHECK(spoilt(nan) == "element (6, 8) is not finite");
  CHECK(spoilt(std::numeric_limits<double>::infinity()) == "element (6, 8) is not finite");
  CHECK(spoilt(-std::numeric_limits<double>::infinity()) == "element (6, 8) is not finite");
  CHECK(!spoilt(right(6, 8) + 1e-12).empty());
  CHECK(!spoilt(0).empty());
  CHECK(judge(x, Matrix<double>(Shape{9, 7}), 4).failure == "shape 9x7 instead of 7x9");
  CHECK(judge(x, Matrix<double>(), 4).failure == "shape 0x0 instead of 7x9");
  CHECK(!judge(x, x.c0, 4).failure.empty());                         // untouched
  CHECK(!judge(x, Matrix<double>(Shape{7, 9}), 4).failure.empty());  // zeros
  // A fault in fp32: sums carried in 16 bits.
  const auto f = random_product<float>(7, 9, 40, 1, 0);
  auto coarse = plain(f);
  CHECK(judge(f, coarse, 1).failure.empty());
  for (float& v : coarse.elements) v = static_cast<float>(bfloat16(v));
  CHECK(!judge(f, coarse, 1).failure.empty());
  // Sizes of nothing.
  const auto empty = random_product<double>(3, 2, 0, 1, 1);
  CHECK(judge(empty, empty.c0, 1).failure.empty());
  CHECK(!judge(empty, Matrix<double>(Shape{3, 2}), 1).failure.empty());
  CHECK(compare_exact(right, right).empty());
  CHECK(compare_exact(Matrix<double>(Shape{9, 7}), right) == "shape 9x7 instead of 7x9");
  auto other = right;
  other(0, 1) = nan;
  CHECK(compare_exact(other, right) == "element (0, 1) differs");
  CHECK(compare_exact(other, other) == "element (0, 1) differs");
}

template <class T, class P, class Grid>
void check_quality(const Grid& grid, const RealProduct<T>& x, int ranks, const MatmulOptions& options) {
  const auto a = [&] {
    const auto at = [&](index_t i, index_t j) { return P::a_transposed ? x.a(j, i) : x.a(i, j); };
    if constexpr (P::a_transposed) {
      return from_function<T, transposed_t<typename P::a>>(grid, x.a.shape.transposed(), at);
    } else {
      return from_function<T, typename P::a>(grid, x.a.shape, at);
    }
  }();
  const auto b = [&] {
    const auto at = [&](index_t i, index_t j) { return P::b_transposed ? x.b(j, i) : x.b(i, j); };
    if constexpr (P::b_transposed) {
      return from_function<T, transposed_t<typename P::b>>(grid, x.b.shape.transposed(), at);
    } else {
      return from_function<T, typename P::b>(grid, x.b.shape, at);
    }
  }();
  auto c = from_function<T, typename P::result>(grid, x.c0.shape, [&](index_t i, index_t j) { return x.c0(i, j); });
  matmul_into(c, op<P::a_transposed>(a), op<P::b_transposed>(b), x.alpha, x.beta, options);
  const auto found = gather(c);
  if (grid.context().rank() != 0) return;
  const Verdict verdict = judge(x, found, ranks);
  INFO(verdict.failure);
  CHECK(verdict.failure.empty());
  CHECK(verdict.bound > 0);  // real data are rounded: an exact result would mean that nothing was compared
}

TEST_CASE_TEMPLATE("real products stay within the bound of each element and the quality gate", T, float, double,
                   std::complex<float>, std::complex<double>) {
  const T alpha = static_cast<T>(real_of_t<T>(1.25)), beta = static_cast<T>(real_of_t<T>(-0.75));
  for (const index_t k : {1, 17, 300}) {
    for (const T b : {T(0), beta}) {
      const auto x = random_product<T>(23, 19, k, alpha, b);
      for (const MatmulOptions& options : {MatmulOptions{}, MatmulOptions{.panel_width = 5}}) {
        on_ranks(3, [&](ThreadContext& context) {
          const auto grid = make_grid<TpGrid<>>(context, 3);
          check_quality<T, Pair<ColumnShard<>, RowShard<>>>(grid, x, 3, options);
          check_quality<T, Pair<RowShard<>, ColumnShard<>>>(grid, x, 3, options);
        });
        on_ranks(4, [&](ThreadContext& context) {
          const auto grid = make_grid<Grid2D<>>(context, 2, 2);
          check_quality<T, Pair<Summa2D<>, Summa2D<>>>(grid, x, 4, options);
          check_quality<T, Pair<Summa2D<>, transposed_t<Summa2D<>>, false, true>>(grid, x, 4, options);
        });
        on_ranks(8, [&](ThreadContext& context) {
          const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
          check_quality<T, Pair<transposed_t<Summa25D<>>, Summa25D<>, true>>(grid, x, 8, options);
          check_quality<T, Pair<SplitKLeft<>, SplitKRight<>>>(grid, x, 8, options);
        });
      }
    }
  }
}

}  // namespace
}  // namespace partita::test
