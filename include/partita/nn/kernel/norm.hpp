// SPDX-License-Identifier: Apache-2.0
// Local work of a layer norm: this rank's part of a row's sums, and what is done once they are summed over ranks.
// `moments` holds two numbers a row; `count` is the global length of a row. Index: the row i, but for the last body.
#pragma once

#include <cmath>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// sums = Σ x.
template <class T>
struct RowSums {
  View<const T> x;
  View<accumulate_t<T>> sums;  // rows×1

  constexpr auto with_views(auto&& f) { return f(x, sums); }
  constexpr void operator()(index_t i) const {
    accumulate_t<T> sum(0);
    for (index_t j = 0; j < x.cols; ++j) sum += static_cast<accumulate_t<T>>(x(i, j));
    sums(i, 0) = sum;
  }
};

/// moments: (Σ x, –) before, (mean, Σ (x − mean)²) after.
template <class T>
struct RowDeviations {
  View<const T> x;
  View<accumulate_t<T>> moments;
  accumulate_t<T> count;

  constexpr auto with_views(auto&& f) { return f(x, moments); }
  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const A mean = moments(i, 0) / count;
    A squares(0);
    for (index_t j = 0; j < x.cols; ++j) {
      const A deviation = static_cast<A>(x(i, j)) - mean;
      squares += deviation * deviation;
    }
    moments(i, 0) = mean;
    moments(i, 1) = squares;
  }
};

/// y = (x − mean)/σ · gain + shift. moments: (mean, Σ (x − mean)²) before, (mean, 1/σ) after.
template <class T>
struct NormalizeRows {
  View<const T> x;
  View<const T> gain;   // 1×n
  View<const T> shift;  // 1×n
  View<accumulate_t<T>> moments;
  View<T> y;
  accumulate_t<T> count;
  accumulate_t<T> eps;

  constexpr auto with_views(auto&& f) { return f(x, gain, shift, moments, y); }
  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const A mean = moments(i, 0);
    const A scale = A(1) / std::sqrt(moments(i, 1) / count + eps);
    moments(i, 1) = scale;
    for (index_t j = 0; j < x.cols; ++j) {
      const A normal = (static_cast<A>(x(i, j)) - mean) * scale;
      y(i, j) = static_cast<T>(normal * static_cast<A>(gain(0, j)) + static_cast<A>(shift(0, j)));
    }
  }
};

/// What backward reads of row i: its normalised elements, and the gradient with respect to them.
template <class T>
struct NormedRows {
  using A = accumulate_t<T>;
  View<const T> x;
  View<const T> dy;
  View<const T> gain;     // 1×n
  View<const A> moments;  // mean, 1/σ

  [[nodiscard]] constexpr A normal(index_t i, index_t j) const {
    return (static_cast<A>(x(i, j)) - moments(i, 0)) * moments(i, 1);
  }
  [[nodiscard]] constexpr A gradient(index_t i, index_t j) const {
    return static_cast<A>(dy(i, j)) * static_cast<A>(gain(0, j));
  }
};

/// sums = (Σ g, Σ g·x̂), g the gradient with respect to the normalised x̂.
template <class T>
struct NormGradientSums {
  NormedRows<T> rows;
  View<accumulate_t<T>> sums;  // rows×2

  constexpr auto with_views(auto&& f) { return f(rows.x, rows.dy, rows.gain, rows.moments, sums); }
  constexpr void operator()(index_t i) const {
    accumulate_t<T> plain(0), weighted(0);
    for (index_t j = 0; j < rows.x.cols; ++j) {
      plain += rows.gradient(i, j);
      weighted += rows.gradient(i, j) * rows.normal(i, j);
    }
    sums(i, 0) = plain;
    sums(i, 1) = weighted;
  }
};

/// dx = (g − (Σ g + x̂·Σ g·x̂)/count)/σ.
template <class T>
struct NormInputGradient {
  NormedRows<T> rows;
  View<const accumulate_t<T>> sums;
  View<T> dx;
  accumulate_t<T> count;

  constexpr auto with_views(auto&& f) { return f(rows.x, rows.dy, rows.gain, rows.moments, sums, dx); }
  constexpr void operator()(index_t i) const {
    using A = accumulate_t<T>;
    const A plain = sums(i, 0) / count;
    const A weighted = sums(i, 1) / count;
    for (index_t j = 0; j < dx.cols; ++j) {
      dx(i, j) = static_cast<T>((rows.gradient(i, j) - plain - rows.normal(i, j) * weighted) * rows.moments(i, 1));
    }
  }
};

/// dgain += Σ dy·x̂ and dshift += Σ dy, in stripes of columns, each over all rows in order. Index: the stripe; stripes()
/// of them.
template <class T>
struct NormParameterGradients {
  static constexpr index_t width = 64;
  NormedRows<T> rows;
  View<accumulate_t<T>> gain;   // 1×n
  View<accumulate_t<T>> shift;  // 1×n

  constexpr auto with_views(auto&& f) { return f(rows.x, rows.dy, rows.gain, rows.moments, gain, shift); }
  [[nodiscard]] constexpr index_t stripes() const noexcept { return (rows.x.cols + width - 1) / width; }
  constexpr void operator()(index_t stripe) const {
    using A = accumulate_t<T>;
    const index_t begin = stripe * width;
    const index_t end = begin + width < rows.x.cols ? begin + width : rows.x.cols;
    for (index_t i = 0; i < rows.x.rows; ++i) {
      for (index_t j = begin; j < end; ++j) {
        gain(0, j) += static_cast<A>(rows.dy(i, j)) * rows.normal(i, j);
        shift(0, j) += static_cast<A>(rows.dy(i, j));
      }
    }
  }
};

}  // namespace partita::kernel
