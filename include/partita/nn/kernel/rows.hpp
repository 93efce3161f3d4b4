// SPDX-License-Identifier: Apache-2.0
// Local work with one row and the rows of a block: added to each, written to each, and their sum.
#pragma once

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// out[i, :] += row.
template <class T>
struct AddRow {
  View<const T> row;  // 1×n
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(row, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    using A = accumulate_t<T>;
    out(i, j) = static_cast<T>(static_cast<A>(out(i, j)) + static_cast<A>(row(0, j)));
  }
};

/// out[i, :] = factor·row.
template <class T>
struct SpreadRow {
  View<const accumulate_t<T>> row;  // 1×n
  accumulate_t<T> factor;
  View<T> out;

  constexpr auto with_views(auto&& f) { return f(row, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const { out(i, j) = static_cast<T>(factor * row(0, j)); }
};

/// sum += 1ᵀ·in, in stripes of columns, each over all rows in order. Index: the stripe; stripes() of them.
template <class T>
struct SumRows {
  static constexpr index_t width = 64;
  View<const T> in;
  View<accumulate_t<T>> sum;  // 1×n

  constexpr auto with_views(auto&& f) { return f(in, sum); }
  [[nodiscard]] constexpr index_t stripes() const noexcept { return (in.cols + width - 1) / width; }
  constexpr void operator()(index_t stripe) const {
    const index_t begin = stripe * width;
    const index_t end = begin + width < in.cols ? begin + width : in.cols;
    for (index_t i = 0; i < in.rows; ++i) {
      for (index_t j = begin; j < end; ++j) sum(0, j) += static_cast<accumulate_t<T>>(in(i, j));
    }
  }
};

}  // namespace partita::kernel
