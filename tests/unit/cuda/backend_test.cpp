// SPDX-License-Identifier: Apache-2.0
// CudaBackend: the laws of a backend, and products with bias and activation.
#include "partita/backend/cuda.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "laws/backend_laws.hpp"
#include "unit/cuda/mirror.hpp"
#include "unit/cuda/support.hpp"

namespace partita {
namespace {

using test::Mirror;
using test::MirroredBackend;

template <class... T>
void check_all(CudaBackend& backend) {
  MirroredBackend mirrored(backend);
  (laws::check_backend<T>(mirrored), ...);
}

TEST_CASE("CudaBackend obeys the laws of a backend") {
  test::on_machines([] {
    CudaBackend backend(test::small_backend());
    check_all<float, double, std::complex<float>, std::complex<double>, half, bfloat16>(backend);
    backend.sync();
  });
}

TEST_CASE("A backend that is moved keeps its stream; nothing is left of it") {
  const test::CudaMachine machine;
  CudaBackend first(test::small_backend());
  CudaBackend second = std::move(first);
  MirroredBackend mirrored(second);
  laws::check_gemm<float>(mirrored, 3, 4, 5);
  second.sync();
}

double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

/// act(a·b + bias) for integers, whose sums are exact.
template <class T>
void check_linear(CudaBackend& backend, index_t m, index_t n, index_t k, bool a_transposed, bool expected_done) {
  const Shape shape_a = a_transposed ? Shape{k, m} : Shape{m, k};
  laws::GappedMatrix<T> a(shape_a, 0, 1);
  laws::GappedMatrix<T> b(Shape{k, n}, 0, 2);
  laws::GappedMatrix<T> bias(Shape{1, n}, 0, 3);
  for (const auto activation : {LinearActivation::none, LinearActivation::relu, LinearActivation::gelu_tanh}) {
    laws::GappedMatrix<T> out(Shape{m, n}, 0, 4);
    const Mirror<T> da(backend, a.view);
    const Mirror<T> db(backend, b.view);
    const Mirror<T> dbias(backend, bias.view);
    const Mirror<T> dout(backend, out.view);
    const MatrixOperand<T> left{da.view, a_transposed};
    const bool done = backend.linear<T>(accumulate_t<T>(1), left, {db.view}, dbias.view, activation, dout.view);
    if (!test::on_device) REQUIRE(done == expected_done);  // what a device has an algorithm for is its own
    if (!done) continue;
    backend.copy<T>(dout.view, out.view);
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) {
        double x = static_cast<double>(static_cast<accumulate_t<T>>(bias.view(0, j)));
        for (index_t l = 0; l < k; ++l) {
          x += static_cast<double>(laws::read<T>({a.view, a_transposed}, i, l)) *
               static_cast<double>(laws::read<T>({b.view}, l, j));
        }
        if (activation == LinearActivation::relu) x = std::max(x, 0.0);
        if (activation == LinearActivation::gelu_tanh) x = gelu_by_tanh(x);
        const double result = static_cast<double>(static_cast<accumulate_t<T>>(out.view(i, j)));
        REQUIRE(result == doctest::Approx(x).epsilon(is_storage_only_v<T> ? 0.01 : 1e-6));
      }
    }
  }
}

/// out = gelu(a·b + bias) and before = a·b + bias, with gaps between the rows of `before`.
template <class T>
void check_kept(CudaBackend& backend, Shape shape, index_t k, index_t gap, bool biased, bool expected_done) {
  laws::GappedMatrix<T> a(Shape{shape.rows, k}, 0, 1);
  laws::GappedMatrix<T> b(Shape{k, shape.cols}, 0, 2);
  laws::GappedMatrix<T> bias(Shape{biased ? 1 : 0, shape.cols}, 0, 3);
  laws::GappedMatrix<T> out(shape, 0, 4);
  laws::GappedMatrix<T> before(shape, gap, 5);
  const Mirror<T> da(backend, a.view);
  const Mirror<T> db(backend, b.view);
  const Mirror<T> dbias(backend, bias.view);
  const Mirror<T> dout(backend, out.view);
  const Mirror<T> dbefore(backend, before.view);
  const auto linear = [&](LinearActivation activation) {
    return backend.linear<T>(accumulate_t<T>(1), {da.view}, {db.view}, dbias.view, activation, dout.view, dbefore.view);
  };
  REQUIRE_FALSE(linear(LinearActivation::none));  // which keep nothing
  REQUIRE_FALSE(linear(LinearActivation::relu));
  const bool done = linear(LinearActivation::gelu_tanh);
  if (!test::on_device || !expected_done) REQUIRE(done == expected_done);
  backend.copy<T>(dout.view, out.view);
  backend.copy<T>(dbefore.view, before.view);
  for (index_t i = 0; i < shape.rows; ++i) {
    for (index_t j = 0; j < shape.cols; ++j) {
      const auto number = [](T x) { return static_cast<double>(static_cast<accumulate_t<T>>(x)); };
      if (!done) {
        REQUIRE(number(out.view(i, j)) == number(laws::small_value<T>(4, i, j)));
        REQUIRE(number(before.view(i, j)) == number(laws::small_value<T>(5, i, j)));
        continue;
      }
      double x = biased ? number(bias.view(0, j)) : 0;
      for (index_t l = 0; l < k; ++l) x += number(a.view(i, l)) * number(b.view(l, j));
      REQUIRE(number(before.view(i, j)) == x);
      REQUIRE(number(out.view(i, j)) == doctest::Approx(gelu_by_tanh(x)).epsilon(is_storage_only_v<T> ? 0.01 : 1e-6));
    }
  }
}

TEST_CASE("What GELU is applied to is kept in the same pass, where cublasLt has room for it") {
  test::on_machines([] {
    CudaBackend backend(test::small_backend());
    for (const bool biased : {true, false}) {
      check_kept<float>(backend, {5, 8}, 4, 0, biased, true);
      check_kept<float>(backend, {5, 3}, 4, 5, biased, true);
      check_kept<float>(backend, {5, 3}, 4, 0, biased, false);  // rows that begin at multiples of 3 elements
      check_kept<double>(backend, {3, 16}, 7, 0, biased, true);
      check_kept<half>(backend, {8, 16}, 24, 0, biased, true);
      check_kept<bfloat16>(backend, {16, 8}, 8, 8, biased, true);
      check_kept<bfloat16>(backend, {8, 12}, 8, 0, biased, false);
      check_kept<float>(backend, {1, 8}, 1, 3, biased, true);   // one row, whose leading dimension says nothing
      check_kept<float>(backend, {4, 8}, 0, 0, biased, false);  // no product
    }
    backend.sync();
  });
}

TEST_CASE("Product, bias and activation in one pass; where cublasLt has none, nothing happens") {
  const test::CudaMachine machine;
  CudaBackend backend(test::small_backend());
  check_linear<float>(backend, 5, 3, 4, false, true);
  check_linear<float>(backend, 5, 3, 4, true, true);
  check_linear<double>(backend, 2, 7, 3, false, true);
  check_linear<half>(backend, 8, 16, 24, false, true);
  check_linear<bfloat16>(backend, 16, 8, 8, true, true);
  check_linear<bfloat16>(backend, 8, 7, 8, false, false);  // rows of 14 bytes
  backend.sync();
}

}  // namespace
}  // namespace partita
