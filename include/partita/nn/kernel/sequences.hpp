// SPDX-License-Identifier: Apache-2.0
// Local work with sequences of equal length that stand one after the other in the rows of a block.
#pragma once

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// sum[t, :] += Σ_s in[t + s·length, :], over the sequences s in order. Index: the row t of sum.
template <class T>
struct SumOverSequences {
  View<const T> in;
  index_t length;
  View<accumulate_t<T>> sum;

  constexpr auto with_views(auto&& f) { return f(in, sum); }
  constexpr void operator()(index_t t) const {
    for (index_t i = t; i < in.rows; i += length) {
      for (index_t j = 0; j < in.cols; ++j) sum(t, j) += static_cast<accumulate_t<T>>(in(i, j));
    }
  }
};

/// out[s, :] = the first row of sequence s.
template <class T>
struct TakeFirst {
  View<const T> in;
  index_t length;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t s, index_t j) const { out(s, j) = in(s * length, j); }
};
/// Its backward: dY in the first row of each sequence, zero in the others.
template <class T>
struct PlaceFirst {
  View<const T> in;
  index_t length;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    const bool first = i % length == 0;
    out(i, j) = first ? in(i / length, j) : T{};
  }
};

/// out[s, :] = the mean of the rows of sequence s.
template <class T>
struct TakeMean {
  View<const T> in;
  index_t length;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t s, index_t j) const {
    using A = accumulate_t<T>;
    A sum{};
    for (index_t t = 0; t < length; ++t) sum += static_cast<A>(in(s * length + t, j));
    out(s, j) = static_cast<T>(sum / static_cast<A>(length));
  }
};
/// Its backward: dY over the length in each row.
template <class T>
struct PlaceMean {
  View<const T> in;
  index_t length;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(in, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    out(i, j) = static_cast<T>(static_cast<A>(in(i / length, j)) / static_cast<A>(length));
  }
};

}  // namespace partita::kernel
