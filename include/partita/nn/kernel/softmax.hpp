// SPDX-License-Identifier: Apache-2.0
// Local work of attention on the n×n scores of one head over one sequence. Index: the row i, a query.
#pragma once

#include <cmath>

#include "partita/nn/kernel/elementwise.hpp"

namespace partita::kernel {

/// Which keys a query sees, and where the scores stand: dropout draws by the global token (row + i) and by the key's
/// place among all heads (col + j).
struct ScoreMask {
  bool causal = false;
  Keep keep;
  index_t row = 0;
  index_t col = 0;

  /// Keys [0, seen) of n.
  [[nodiscard]] constexpr index_t seen(index_t i, index_t n) const { return causal && i + 1 < n ? i + 1 : n; }
  template <class A>
  [[nodiscard]] constexpr A factor(index_t i, index_t j) const {
    return keep.factor<A>(row + i, col + j);
  }
};

/// Scores become probabilities p, by subtraction of the row's maximum; weights = p ∘ dropout, which multiply the
/// values. Without dropout, and where T is no 16-bit type, both may be one matrix.
template <class T>
struct SoftmaxRows {
  View<accumulate_t<T>> scores;
  View<T> weights;
  ScoreMask mask;

  constexpr auto with_views(auto&& f) { return f(scores, weights); }
  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const index_t n = scores.cols;
    const index_t seen = mask.seen(i, n);
    A largest = scores(i, 0);
    for (index_t j = 1; j < seen; ++j) largest = largest < scores(i, j) ? scores(i, j) : largest;
    A sum(0);
    for (index_t j = 0; j < seen; ++j) {
      scores(i, j) = std::exp(scores(i, j) - largest);
      sum += scores(i, j);
    }
    for (index_t j = 0; j < n; ++j) {
      const A p = j < seen ? scores(i, j) / sum : A(0);
      scores(i, j) = p;
      weights(i, j) = j < seen ? static_cast<T>(p * mask.factor<A>(i, j)) : T{};
    }
  }
};

/// ds = p ∘ (dp − Σ p·dp), dp = dw ∘ dropout: the gradient with respect to the scores, given that with respect to the
/// weights. `ds` may be the matrix of p.
template <class T>
struct SoftmaxRowGradients {
  View<const accumulate_t<T>> p;
  View<const accumulate_t<T>> dw;
  View<T> ds;
  ScoreMask mask;

  constexpr auto with_views(auto&& f) { return f(p, dw, ds); }
  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const index_t n = p.cols;
    const index_t seen = mask.seen(i, n);
    A dot(0);
    for (index_t j = 0; j < seen; ++j) dot += p(i, j) * dw(i, j) * mask.factor<A>(i, j);
    for (index_t j = 0; j < n; ++j) {
      ds(i, j) = j < seen ? static_cast<T>(p(i, j) * (dw(i, j) * mask.factor<A>(i, j) - dot)) : T{};
    }
  }
};

}  // namespace partita::kernel
