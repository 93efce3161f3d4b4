// SPDX-License-Identifier: Apache-2.0
// Local work element by element: a function and its slope, a sum, and random zeros.
#pragma once

#include <cstdint>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"
#include "partita/tensor/random.hpp"

namespace partita::kernel {

/// out = f(in).
template <class T, class Function>
struct Apply {
  View<const T> in;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    out(i, j) = static_cast<T>(Function::value(static_cast<A>(in(i, j))));
  }
};

/// out = gradient · f'(in).
template <class T, class Function>
struct ApplySlope {
  View<const T> in;
  View<const T> gradient;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, gradient, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    out(i, j) = static_cast<T>(static_cast<A>(gradient(i, j)) * Function::slope(static_cast<A>(in(i, j))));
  }
};

/// out = a + b.
template <class T>
struct Add {
  View<const T> a;
  View<const T> b;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(a, b, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    out(i, j) = static_cast<T>(static_cast<A>(a(i, j)) + static_cast<A>(b(i, j)));
  }
};

/// What dropout multiplies element (i, j) with, i and j global: zero with probability `rate`, else 1/(1 − rate)
/// (inverted scaling), so that the expected value is kept. A pure function of its arguments; no draw where rate is 0.
struct Keep {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  double rate = 0;

  template <class A>
  [[nodiscard]] constexpr A factor(index_t i, index_t j) const {
    if (rate == 0) return A(1);
    // The lane has 32 bits; what is above is mixed into the seed.
    const std::uint64_t stream = seed ^ (step >> 32) * 0x9E3779B97F4A7C15ULL;
    return random_unit(stream, i, j, static_cast<std::uint32_t>(step)) < rate ? A(0) : static_cast<A>(1 / (1 - rate));
  }
};

/// out = in ∘ mask; (row, col) is the global index of the first element.
template <class T>
struct Drop {
  View<const T> in;
  View<T> out;
  Keep keep;
  index_t row = 0;
  index_t col = 0;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    const A factor = keep.factor<A>(row + i, col + j);
    out(i, j) = factor == A(0) ? T{} : static_cast<T>(factor * static_cast<A>(in(i, j)));
  }
};

}  // namespace partita::kernel
