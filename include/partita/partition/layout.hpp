// SPDX-License-Identifier: Apache-2.0
// A partition as a value: which axes cut the rows, which the columns, and over which a sum is pending.
#pragma once

#include "partita/base/axis_list.hpp"

namespace partita {

/// `rows` and `cols` are ordered, the first axis cuts first; `partial` is a set in grid order. No axis occurs twice.
struct Layout {
  AxisList rows;
  AxisList cols;
  AxisList partial;

  [[nodiscard]] constexpr Layout transposed() const { return {cols, rows, partial}; }
  [[nodiscard]] constexpr bool names(int axis) const noexcept {
    return rows.contains(axis) || cols.contains(axis) || partial.contains(axis);
  }
  [[nodiscard]] constexpr bool names_any(const AxisList& axes) const noexcept {
    return rows.meets(axes) || cols.meets(axes) || partial.meets(axes);
  }

  friend constexpr bool operator==(const Layout&, const Layout&) = default;
};

}  // namespace partita
