// SPDX-License-Identifier: Apache-2.0
// Local work with ids: the first that is none, rows of a table by id, and the sum of rows by id.
#pragma once

#include <cstdint>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// found = the first row whose index is neither in [0, limit) nor ignored, and that index; row -1 where there is none.
/// Index: 0.
struct FirstOutside {
  View<const std::int64_t> indices;  // m×1
  index_t limit;
  std::int64_t ignored;
  bool ignores;
  View<std::int64_t> found;  // 1×2

  constexpr auto with_views(auto&& f) { return f(indices, found); }
  constexpr void operator()(index_t) const {
    found(0, 0) = -1;
    found(0, 1) = 0;
    for (index_t i = 0; i < indices.rows && !indices.empty(); ++i) {
      const std::int64_t index = indices(i, 0);
      if ((index >= 0 && index < limit) || (ignores && index == ignored)) continue;
      found(0, 0) = i;
      found(0, 1) = index;
      return;
    }
  }
};

/// out[i, :] = the row of the table whose id is ids[i], of which this block holds those from `first` on; zero where
/// another block holds it.
template <class T, class U>
struct LookUpRows {
  View<const std::int64_t> ids;  // m×1
  View<const T> table;
  index_t first;
  View<U> out;

  constexpr auto with_views(auto&& f) { return f(ids, table, out); }
  [[nodiscard]] constexpr index_t columns() const noexcept { return out.cols; }
  constexpr void operator()(index_t i, index_t j) const {
    const std::int64_t id = ids(i, 0);
    const bool held = id >= first && id - first < table.rows;
    out(i, j) = held ? static_cast<U>(static_cast<accumulate_t<T>>(table(id - first, j))) : U{};
  }
};

/// sum[ids[i] - first, :] += in[i, :] for the ids that the block holds, in stripes of columns, each over all rows in
/// order. Index: the stripe; stripes() of them.
template <class T>
struct AddRowsById {
  static constexpr index_t width = 64;
  View<const std::int64_t> ids;  // m×1
  View<const T> in;
  index_t first;
  View<accumulate_t<T>> sum;

  constexpr auto with_views(auto&& f) { return f(ids, in, sum); }
  [[nodiscard]] constexpr index_t stripes() const noexcept { return (in.cols + width - 1) / width; }
  constexpr void operator()(index_t stripe) const {
    const index_t begin = stripe * width;
    const index_t end = begin + width < in.cols ? begin + width : in.cols;
    for (index_t i = 0; i < in.rows; ++i) {
      const std::int64_t id = ids(i, 0);
      if (id < first || id - first >= sum.rows) continue;
      for (index_t j = begin; j < end; ++j) sum(id - first, j) += static_cast<accumulate_t<T>>(in(i, j));
    }
  }
};

}  // namespace partita::kernel
