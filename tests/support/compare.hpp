// SPDX-License-Identifier: Apache-2.0
// How a product is judged: exactly, or against an error bound per element and a bound on the whole.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include "partita/tensor/gather.hpp"

namespace partita::test {

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using real_of_t = typename RealOf<T>::type;

/// A type in which sums of products of T leave errors far below those of T.
template <class T>
struct Wider {
  using type = std::conditional_t<std::is_same_v<T, float>, double, long double>;
};
template <class R>
struct Wider<std::complex<R>> {
  using type = std::complex<typename Wider<R>::type>;
};
template <class T>
using wider_t = typename Wider<T>::type;

inline std::string element_text(index_t i, index_t j) {
  return "element (" + std::to_string(i) + ", " + std::to_string(j) + ")";
}

/// Empty where both matrices are equal, element by element; a NaN equals nothing, not even itself.
template <class T>
std::string compare_exact(const Matrix<T>& found, const Matrix<T>& wanted) {
  if (found.shape != wanted.shape) {
    return "shape " + to_string(found.shape) + " instead of " + to_string(wanted.shape);
  }
  for (index_t i = 0; i < found.shape.rows; ++i) {
    for (index_t j = 0; j < found.shape.cols; ++j) {
      if (!(found(i, j) == wanted(i, j))) return element_text(i, j) + " differs";
    }
  }
  return {};
}

/// A product with real data: C = alpha·A·B + beta·C0, all of it on one rank.
template <class T>
struct RealProduct {
  Matrix<T> a, b, c0;
  T alpha{1}, beta{0};
};

struct Verdict {
  std::string failure;  // empty: within both bounds
  double bound = 0;     // the largest error over gamma(K + p + 4)·G; at most 1 is right
  double quality = 0;   // the norm of the error over 3·eps·(√(K+2)·|alpha|·‖A‖·‖B‖ + 2·|beta|·‖C0‖)
};

/// Judges `found` against the reference in a wider type. `ranks`: over how many ranks an element was summed.
template <class T>
Verdict judge(const RealProduct<T>& x, const Matrix<T>& found, int ranks) {
  using W = wider_t<T>;
  using R = real_of_t<T>;
  using WR = real_of_t<W>;
  const index_t m = x.a.shape.rows, k = x.a.shape.cols, n = x.b.shape.cols;
  if (found.shape != Shape{m, n}) {
    return {"shape " + to_string(found.shape) + " instead of " + to_string(Shape{m, n}), 0, 0};
  }
  const WR eps = std::numeric_limits<R>::epsilon();
  const auto count = static_cast<WR>(k + ranks + 4);
  const WR gamma = count * eps / 2 / (1 - count * eps / 2);
  // A complex product is four real ones and their sums: Higham's constant for it is √2 · gamma(n + 2) at most.
  const WR factor = is_complex_v<T> ? gamma * 2 : gamma;
  Verdict verdict;
  WR error_square = 0, a_square = 0, b_square = 0, c_square = 0;
  for (const T& v : x.a.elements) a_square += std::norm(W(v));
  for (const T& v : x.b.elements) b_square += std::norm(W(v));
  for (const T& v : x.c0.elements) c_square += std::norm(W(v));
  for (index_t i = 0; i < m; ++i) {
    for (index_t j = 0; j < n; ++j) {
      W sum(0);
      WR magnitude = 0;
      for (index_t l = 0; l < k; ++l) {
        const W left(x.a(i, l)), right(x.b(l, j));
        sum += left * right;
        magnitude += std::abs(left) * std::abs(right);
      }
      W wanted = W(x.alpha) * sum;
      magnitude *= std::abs(W(x.alpha));
      if (x.beta != T(0)) {
        wanted += W(x.beta) * W(x.c0(i, j));
        magnitude += std::abs(W(x.beta)) * std::abs(W(x.c0(i, j)));
      }
      const WR error = std::abs(W(found(i, j)) - wanted);
      if (!std::isfinite(error)) return {element_text(i, j) + " is not finite", 0, 0};
      error_square += error * error;
      if (error > 0) {
        const WR allowed = factor * magnitude;
        const auto ratio = static_cast<double>(allowed > 0 ? error / allowed : std::numeric_limits<WR>::infinity());
        verdict.bound = std::max(verdict.bound, ratio);
      }
    }
  }
  const WR norm = std::sqrt(static_cast<WR>(k + 2)) * std::abs(W(x.alpha)) * std::sqrt(a_square) * std::sqrt(b_square) +
                  (x.beta != T(0) ? 2 * std::abs(W(x.beta)) * std::sqrt(c_square) : WR(0));
  if (error_square > 0) verdict.quality = static_cast<double>(std::sqrt(error_square) / (3 * eps * norm));
  if (!(verdict.bound <= 1)) verdict.failure = "an element's error is " + std::to_string(verdict.bound) + " bounds";
  if (!(verdict.quality <= 1)) verdict.failure += " quality is " + std::to_string(verdict.quality) + " of the gate";
  return verdict;
}

}  // namespace partita::test
