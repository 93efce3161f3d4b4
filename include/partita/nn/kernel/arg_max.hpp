// SPDX-License-Identifier: Apache-2.0
// Local work of the largest class of a row whose classes may be cut, and of counting where it is the target.
#pragma once

#include <cstdint>
#include <limits>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita::kernel {

/// values(0, i) = values(1, i) = the largest of this block's logits in row i, and found(i, 0) = minus its class, the
/// lowest that has it. A NaN counts as minus infinity. A block without classes has minus infinity, and nothing found.
/// Index: the row.
template <class T>
struct RowArgMax {
  using A = accumulate_t<T>;
  View<const T> logits;
  index_t first;
  View<A> values;            // 2×m
  View<std::int64_t> found;  // m×1
  static constexpr std::int64_t nothing = std::numeric_limits<std::int64_t>::min();

  constexpr auto with_views(auto&& f) { return f(logits, values, found); }
  constexpr void operator()(index_t i) const {
    A largest = -std::numeric_limits<A>::infinity();
    index_t at = 0;
    for (index_t j = 0; j < logits.cols; ++j) {
      const A x = static_cast<A>(logits(i, j));
      if (!(x > largest)) continue;
      largest = x;
      at = j;
    }
    values(0, i) = values(1, i) = largest;
    found(i, 0) = logits.cols > 0 ? -(first + at) : nothing;
  }
};

/// Forgets what was found where another block has a larger value: values(1, :) is the largest of all. Index: the row.
template <class A>
struct KeepLargest {
  View<const A> values;
  View<std::int64_t> found;

  constexpr auto with_views(auto&& f) { return f(values, found); }
  constexpr void operator()(index_t i) const {
    if (values(0, i) != values(1, i)) found(i, 0) = std::numeric_limits<std::int64_t>::min();
  }
};

/// From minus the class to the class; -1 where there are no classes. Index: the row.
struct NegateFound {
  View<std::int64_t> found;

  constexpr auto with_views(auto&& f) { return f(found); }
  constexpr void operator()(index_t i) const {
    found(i, 0) = found(i, 0) == std::numeric_limits<std::int64_t>::min() ? -1 : -found(i, 0);
  }
};

/// counts(0, 0) = in how many rows that are not ignored the class is the target, counts(0, 1) = how many such rows
/// there are. Index: 0.
struct CountHits {
  View<const std::int64_t> classes;  // m×1
  View<const std::int64_t> targets;  // m×1
  std::int64_t ignored;
  View<std::int64_t> counts;  // 1×2

  constexpr auto with_views(auto&& f) { return f(classes, targets, counts); }
  constexpr void operator()(index_t) const {
    counts(0, 0) = counts(0, 1) = 0;
    for (index_t i = 0; i < targets.rows && !targets.empty(); ++i) {
      if (targets(i, 0) == ignored) continue;
      counts(0, 0) += classes(i, 0) == targets(i, 0) ? 1 : 0;
      ++counts(0, 1);
    }
  }
};

}  // namespace partita::kernel
