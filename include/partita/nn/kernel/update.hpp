// SPDX-License-Identifier: Apache-2.0
// One optimiser step of a block of weights, element by element.
#pragma once

#include <cmath>

#include "partita/base/view.hpp"

namespace partita::kernel {

/// g' = g + decay·w; v = momentum·v + g'; w -= rate·v, or with Nesterov's momentum w -= rate·(g' + momentum·v).
template <class A>
struct SgdUpdate {
  View<A> weight;
  View<const A> gradient;
  View<A> velocity;  // not read where momentum is 0
  A rate;
  A momentum;
  A decay;
  bool nesterov;

  constexpr auto with_views(auto&& f) { return f(weight, gradient, velocity); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return weight.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    A step = gradient(i, j) + decay * weight(i, j);
    if (momentum != A(0)) {
      const A v = momentum * velocity(i, j) + step;
      velocity(i, j) = v;
      step = nesterov ? step + momentum * v : v;
    }
    weight(i, j) -= rate * step;
  }
};

/// g' = g + coupled·w; m = beta1·m + rest1·g'; s = beta2·s + rest2·g'²;
/// w -= decoupled·w + rate·(m·correction1) / (√(s·correction2) + epsilon).
template <class A>
struct AdamUpdate {
  View<A> weight;
  View<const A> gradient;
  View<A> mean;
  View<A> square;
  A rate;
  A beta1, rest1, correction1;
  A beta2, rest2, correction2;
  A epsilon;
  A coupled, decoupled;

  constexpr auto with_views(auto&& f) { return f(weight, gradient, mean, square); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return weight.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    const A w = weight(i, j);
    const A g = gradient(i, j) + coupled * w;
    const A m = beta1 * mean(i, j) + rest1 * g;
    const A s = beta2 * square(i, j) + rest2 * g * g;
    mean(i, j) = m;
    square(i, j) = s;
    weight(i, j) = w - (decoupled * w + rate * (m * correction1) / (std::sqrt(s * correction2) + epsilon));
  }
};

/// wide = in, exactly.
template <class T, class A>
struct Widen {
  View<const T> in;
  View<A> wide;

  constexpr auto with_views(auto&& f) { return f(in, wide); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return in.cols; }
  constexpr void operator()(index_t i, index_t j) const { wide(i, j) = static_cast<A>(in(i, j)); }
};

}  // namespace partita::kernel
