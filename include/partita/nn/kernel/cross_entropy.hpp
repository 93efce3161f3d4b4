// SPDX-License-Identifier: Apache-2.0
// Local work of the cross entropy of rows whose classes may be cut: what is summed over them, losses and gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// maximum[i] = the largest of this block's logits in row i, minus infinity where it has none. Index: the row.
template <class T>
struct RowMaximum {
  using A = accumulate_t<T>;
  View<const T> logits;
  View<A> maximum;  // 1×m

  constexpr auto with_views(auto&& f) { return f(logits, maximum); }
  constexpr void operator()(index_t i) const {
    A largest = -std::numeric_limits<A>::infinity();
    for (index_t j = 0; j < logits.cols; ++j) {
      const A x = static_cast<A>(logits(i, j));
      if (x > largest) largest = x;
    }
    maximum(0, i) = largest;
  }
};

/// Row i of this block's classes, which begin at `first`, each less the row's maximum: sums(0, i) = Σ exp, sums(1, i) =
/// the target's, zero where it lies elsewhere, and, where there is a third row, sums(2, i) = Σ. A row whose maximum is
/// minus infinity is taken as it is. Index: the row.
template <class T>
struct ExponentialSums {
  using A = accumulate_t<T>;
  View<const T> logits;
  View<const std::int64_t> targets;  // m×1
  View<const A> maximum;             // 1×m
  index_t first;
  View<A> sums;

  constexpr auto with_views(auto&& f) { return f(logits, targets, maximum, sums); }
  constexpr void operator()(index_t i) const {
    const A shift = maximum(0, i) == -std::numeric_limits<A>::infinity() ? A(0) : maximum(0, i);
    A exponentials = 0;
    A plain = 0;
    for (index_t j = 0; j < logits.cols; ++j) {
      const A x = static_cast<A>(logits(i, j)) - shift;
      exponentials += std::exp(x);
      plain += x;
    }
    const std::int64_t target = targets(i, 0);
    const bool held = target >= first && target - first < logits.cols;
    sums(0, i) = exponentials;
    sums(1, i) = held ? static_cast<A>(logits(i, target - first)) - shift : A(0);
    if (sums.rows > 2) sums(2, i) = plain;
  }
};

/// totals(0, 0) = Σ of the losses of the rows that are not ignored, totals(0, 1) = their number; smoothed over all
/// `classes`. Index: 0.
template <class A>
struct SumLosses {
  View<const A> sums;                // 2 or 3 × m, over all classes
  View<const std::int64_t> targets;  // m×1
  std::int64_t ignored;
  double smoothing;
  index_t classes;
  View<double> totals;  // 1×2

  constexpr auto with_views(auto&& f) { return f(sums, targets, totals); }
  constexpr void operator()(index_t) const {
    double loss = 0;
    double kept = 0;
    for (index_t i = 0; i < sums.cols && !sums.empty(); ++i) {
      if (targets(i, 0) == ignored) continue;
      const auto target = static_cast<double>(sums(1, i));
      const double partition = std::log(static_cast<double>(sums(0, i)));
      // A target without probability has an infinite loss, where the row has no other probability either.
      double row = target == -std::numeric_limits<double>::infinity() ? -target : partition - (1 - smoothing) * target;
      if (smoothing > 0) row -= smoothing / static_cast<double>(classes) * static_cast<double>(sums(2, i));
      loss += row;
      kept += 1;
    }
    totals(0, 0) = loss;
    totals(0, 1) = kept;
  }
};

/// out = factor·(softmax - target distribution), zero in ignored rows. Index: the row.
template <class T>
struct CrossEntropyGradient {
  using A = accumulate_t<T>;
  View<const T> logits;
  View<const std::int64_t> targets;  // m×1
  View<const A> maximum;             // 1×m
  View<const A> sums;
  index_t first;
  std::int64_t ignored;
  A on_target;  // of the target distribution, beside
  A elsewhere;  // what every class has
  A factor;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(logits, targets, maximum, sums, out); }
  constexpr void operator()(index_t i) const {
    const std::int64_t target = targets(i, 0);
    const bool kept = target != ignored;
    const index_t at = target >= first ? target - first : -1;
    const A shift = maximum(0, i) == -std::numeric_limits<A>::infinity() ? A(0) : maximum(0, i);
    const A scale = sums(0, i) == A(0) ? A(0) : A(1) / sums(0, i);
    for (index_t j = 0; j < out.cols; ++j) {
      const A probability = std::exp(static_cast<A>(logits(i, j)) - shift) * scale;
      const A wanted = elsewhere + (j == at ? on_target : A(0));
      out(i, j) = static_cast<T>(kept ? factor * (probability - wanted) : A(0));
    }
  }
};

}  // namespace partita::kernel
