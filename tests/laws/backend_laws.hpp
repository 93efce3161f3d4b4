// SPDX-License-Identifier: Apache-2.0
// What every backend must do, as one check that runs on any model of the concept, on integer data: exactly.
#pragma once

#include <doctest/doctest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "partita/backend/concepts.hpp"

namespace partita::laws {

template <class T>
[[nodiscard]] T small_value(index_t seed, index_t i, index_t j) {
  const auto draw = [&](index_t s) { return static_cast<float>((i * 31 + j * 17 + s * 7 + i * j) % 7 - 3); };
  if constexpr (is_complex_v<T>) {
    using R = typename T::value_type;
    return T(static_cast<R>(draw(seed)), static_cast<R>(draw(seed + 3)));
  } else {
    return static_cast<T>(draw(seed));
  }
}

/// A matrix with `gap` elements between its rows, before its first and after its last; they must stay as they are.
template <class T>
struct GappedMatrix {
  GappedMatrix(Shape s, index_t gap)
      : memory(static_cast<std::size_t>((s.rows + 1) * (s.cols + gap) + 1), filler()),
        view(memory.data() + 1, s.rows, s.cols, s.cols + gap) {}
  GappedMatrix(Shape s, index_t gap, index_t seed) : GappedMatrix(s, gap) {
    for (index_t i = 0; i < s.rows; ++i) {
      for (index_t j = 0; j < s.cols; ++j) view(i, j) = small_value<T>(seed, i, j);
    }
  }
  [[nodiscard]] static T filler() { return static_cast<T>(accumulate_t<T>(-77)); }
  [[nodiscard]] bool gaps_untouched() const {
    for (std::size_t x = 0; x < memory.size(); ++x) {
      const index_t at = static_cast<index_t>(x) - 1;
      const bool inside = at >= 0 && view.ld > 0 && at / view.ld < view.rows && at % view.ld < view.cols;
      if (!inside && !(memory[x] == filler())) return false;
    }
    return true;
  }
  std::vector<T> memory;
  View<T> view;
};

/// One element of an operand as it is read.
template <class T>
[[nodiscard]] accumulate_t<T> read(const MatrixOperand<T>& x, index_t i, index_t j) {
  auto v = static_cast<accumulate_t<T>>(x.transposed ? x.stored(j, i) : x.stored(i, j));
  if constexpr (is_complex_v<T>) {
    if (x.conjugated) v = std::conj(v);
  }
  return v;
}

template <class T, class B>
void check_gemm(B& backend, index_t m, index_t n, index_t k) {
  using A = accumulate_t<T>;
  int turn = 0;
  for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    const bool a_transposed = (flags & 1) != 0, b_transposed = (flags & 2) != 0;
    const index_t gap = turn++ % 3;
    GappedMatrix<T> a(a_transposed ? Shape{k, m} : Shape{m, k}, gap, 1);
    GappedMatrix<T> b(b_transposed ? Shape{n, k} : Shape{k, n}, gap, 2);
    GappedMatrix<A> c(Shape{m, n}, gap, 3);
    const GappedMatrix<A> before = c;
    const MatrixOperand<T> left{a.view, a_transposed, (flags & 4) != 0};
    const MatrixOperand<T> right{b.view, b_transposed, (flags & 8) != 0};
    const A alpha(turn % 2 == 0 ? 2.0F : -1.0F);
    backend.template gemm<T>(alpha, left, right, c.view);
    bool right_result = c.gaps_untouched() && a.gaps_untouched() && b.gaps_untouched();
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) {
        A sum(0);
        for (index_t l = 0; l < k; ++l) sum += read(left, i, l) * read(right, l, j);
        const A wanted = before.memory[static_cast<std::size_t>(1 + i * c.view.ld + j)] + alpha * sum;
        right_result = right_result && c.view(i, j) == wanted;
      }
    }
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(flags);
    CHECK(right_result);
  }
}

template <class T, class B>
void check_scale_and_combine(B& backend) {
  using A = accumulate_t<T>;
  using R = decltype(std::abs(A{}));
  for (const index_t gap : {0, 3}) {
    for (const Shape shape : {Shape{5, 4}, Shape{1, 7}, Shape{0, 3}, Shape{3, 0}}) {
      for (const float beta : {0.0F, 1.0F, -2.0F, 0.5F}) {
        GappedMatrix<T> x(shape, gap, 1), y(shape, gap, 1);
        const GappedMatrix<T> old = x;
        GappedMatrix<A> in(shape, gap, 2);
        if (beta == 0 && !x.view.empty()) {  // what stands there does not survive
          x.view(0, 0) = y.view(shape.rows - 1, shape.cols - 1) =
              static_cast<T>(A(std::numeric_limits<R>::quiet_NaN()));
        }
        backend.template scale<T>(A(beta), x.view);
        backend.template combine<T>(A(beta), in.view, y.view);
        bool right = x.gaps_untouched() && y.gaps_untouched() && in.gaps_untouched();
        for (index_t i = 0; i < shape.rows; ++i) {
          for (index_t j = 0; j < shape.cols; ++j) {
            const A scaled = A(beta) * static_cast<A>(old.memory[static_cast<std::size_t>(1 + i * x.view.ld + j)]);
            right = right && x.view(i, j) == static_cast<T>(scaled);
            right = right && y.view(i, j) == static_cast<T>(scaled + in.view(i, j));
          }
        }
        CAPTURE(beta);
        CHECK(right);
      }
    }
  }
}

template <class T, class B>
void check_copy(B& backend) {
  for (const Shape shape : {Shape{4, 3}, Shape{0, 3}, Shape{3, 0}}) {
    GappedMatrix<T> from(shape, 2, 1), to(shape, 5);
    backend.template copy<T>(View<const T>(from.view), to.view);
    bool right = to.gaps_untouched() && from.gaps_untouched();
    for (index_t i = 0; i < shape.rows; ++i) {
      for (index_t j = 0; j < shape.cols; ++j) right = right && to.view(i, j) == from.view(i, j);
    }
    CHECK(right);
  }
}

/// All laws for one scalar.
template <class T, class B>
void check_backend(B& backend) {
  for (const index_t m : {0, 1, 5}) {
    for (const index_t n : {0, 1, 4}) {
      for (const index_t k : {0, 1, 3}) check_gemm<T>(backend, m, n, k);
    }
  }
  check_gemm<T>(backend, 33, 29, 41);  // blocked
  check_gemm<T>(backend, 1, 70, 65);   // a row
  check_gemm<T>(backend, 70, 1, 65);   // a column
  check_scale_and_combine<T>(backend);
  check_copy<T>(backend);
  // Null pointers are legal where nothing stands.
  const View<accumulate_t<T>> nothing(nullptr, 0, 5, 5);
  backend.template scale<accumulate_t<T>>(accumulate_t<T>(2), nothing);
  backend.template gemm<T>(accumulate_t<T>(1), MatrixOperand<T>{{nullptr, 0, 3, 3}},
                           MatrixOperand<T>{{nullptr, 3, 0, 0}}, View<accumulate_t<T>>(nullptr, 0, 0, 0));
  backend.sync();
}

}  // namespace partita::laws
