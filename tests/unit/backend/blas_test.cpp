// SPDX-License-Identifier: Apache-2.0
// BlasBackend: the laws for every scalar, sizes beyond the BLAS's integers, and its threads.
#include "partita/backend/blas.hpp"

#include <doctest/doctest.h>

#include <complex>
#include <string>
#include <vector>

#include "laws/backend_laws.hpp"

namespace partita {
namespace {

TEST_CASE_TEMPLATE("BlasBackend obeys the backend laws", T, float, double, std::complex<float>, std::complex<double>,
                   half, bfloat16) {
  BlasBackend backend;
  laws::check_backend<T>(backend);
}

TEST_CASE_TEMPLATE("sizes and leading dimensions above the limit of the integers are taken in parts", T, float,
                   std::complex<double>) {
  const index_t m = 7, n = 9, k = 11;
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const index_t gap : {0, 5}) {
        laws::GappedMatrix<T> a(a_transposed ? Shape{k, m} : Shape{m, k}, gap, 1);
        laws::GappedMatrix<T> b(b_transposed ? Shape{n, k} : Shape{k, n}, gap, 2);
        const MatrixOperand<T> left{a.view, a_transposed};
        const MatrixOperand<T> right{b.view, b_transposed};
        laws::GappedMatrix<T> whole({m, n}, gap, 3);
        detail::blas_gemm<T>(T(2), left, right, whole.view);
        for (const index_t limit : {1, 3, 8, 10, 13}) {
          CAPTURE(limit);
          laws::GappedMatrix<T> parts({m, n}, gap, 3);
          detail::blas_gemm<T>(T(2), left, right, parts.view, limit);
          CHECK(parts.memory == whole.memory);
        }
      }
    }
  }
}

TEST_CASE("a kernel needs a thread, and says so") {
  std::string text;
  try {
    BlasKernel kernel(0);
  } catch (const ArgumentError& error) {
    text = error.what();
  }
  CHECK(text == "ArgumentError: BlasKernel with 0 threads; it needs at least 1");
}

TEST_CASE("two threads give the result of one") {
  const index_t n = 300;
  std::vector<double> a(static_cast<std::size_t>(n * n)), one(a.size()), two(a.size());
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < n; ++j) a[static_cast<std::size_t>(i * n + j)] = laws::small_value<double>(1, i, j);
  }
  const MatrixOperand<double> x{View<const double>(a.data(), {n, n})};
  BlasBackend single;
  single.gemm<double>(1, x, x, View<double>(one.data(), {n, n}));
  try {
    BlasBackend both(BlasKernel(2));
    both.gemm<double>(1, x, x, View<double>(two.data(), {n, n}));
    CHECK(one == two);
  } catch (const ArgumentError& error) {
    MESSAGE("SKIPPED: " << error.what());
  }
  BlasBackend again;  // one thread again, for what follows
}

}  // namespace
}  // namespace partita
