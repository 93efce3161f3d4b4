// SPDX-License-Identifier: Apache-2.0
// A row-major rectangle of memory with a leading dimension, owned by somebody else.
#pragma once

#include <type_traits>

#include "partita/base/shape.hpp"

namespace partita {

/// Element (i, j) stands at data[i * ld + j]. Pre: ld >= cols, or rows <= 1, or the view is empty.
/// A view is a pointer: copying it copies no element, and an empty one may have a null pointer.
template <class T>
struct View {
  T* data = nullptr;
  index_t rows = 0;
  index_t cols = 0;
  index_t ld = 0;

  constexpr View() = default;
  constexpr View(T* first, index_t row_count, index_t col_count, index_t leading)
      : data(first), rows(row_count), cols(col_count), ld(leading) {}
  /// Rows without gaps.
  constexpr View(T* first, Shape s) : View(first, s.rows, s.cols, s.cols) {}

  [[nodiscard]] constexpr Shape shape() const noexcept { return {rows, cols}; }
  [[nodiscard]] constexpr index_t size() const noexcept { return rows * cols; }
  [[nodiscard]] constexpr bool empty() const noexcept { return rows <= 0 || cols <= 0; }
  [[nodiscard]] constexpr bool contiguous() const noexcept { return rows <= 1 || ld == cols; }
  [[nodiscard]] constexpr T* row(index_t i) const noexcept { return data + i * ld; }
  [[nodiscard]] constexpr T& operator()(index_t i, index_t j) const noexcept { return data[i * ld + j]; }

  /// The rectangle `b` of this view. Pre: b lies inside. An empty rectangle has a null pointer, so that no
  /// address outside the memory is ever formed.
  [[nodiscard]] constexpr View sub(Block b) const noexcept {
    if (b.rows.empty() || b.cols.empty()) return {nullptr, b.rows.size(), b.cols.size(), ld};
    return {data + b.rows.begin * ld + b.cols.begin, b.rows.size(), b.cols.size(), ld};
  }

  /// A view that may be written reads as one that may not.
  constexpr operator View<const T>() const noexcept  // NOLINT(google-explicit-constructor)
    requires(!std::is_const_v<T>)
  {
    return {data, rows, cols, ld};
  }
};

/// One row of n elements.
template <class T>
[[nodiscard]] constexpr View<T> row_view(T* data, index_t n) noexcept {
  return {data, 1, n, n};
}

/// The elements that a view spans in memory, from its first to one past its last; used to find overlaps.
template <class T>
struct Extent {
  const T* begin = nullptr;
  const T* end = nullptr;
};

template <class T>
[[nodiscard]] constexpr Extent<std::remove_const_t<T>> extent_of(View<T> v) noexcept {
  if (v.empty()) return {};
  return {v.data, v.data + (v.rows - 1) * v.ld + v.cols};
}

}  // namespace partita
