// SPDX-License-Identifier: Apache-2.0
// Bodies: local work for each index of a range, which a backend runs where its memory is.
//
// A body is a named struct of views and numbers, and nothing of the standard library's containers. It has
//   - a const constexpr call operator, called for i, or for each element (i, j) of row i; calls with different
//   arguments
//     write different elements, so that their order does not matter;
//   - `constexpr auto with_views(auto&& f) { return f(...); }`, which gives f all views as lvalues: those of const
//     elements are read, others are written and perhaps read, and it touches no other memory. So a backend knows what
//     must be ordered, and can put other addresses into a copy of the body.
#pragma once

#include <array>
#include <concepts>
#include <type_traits>

#include "partita/base/view.hpp"

namespace partita {

/// A body of one index, or of one for the row and one for the column.
template <class Body>
concept IndexBody = std::is_trivially_copyable_v<Body> && requires(const Body& body, index_t i) { body(i); };
template <class Body>
concept ElementBody = std::is_trivially_copyable_v<Body> && requires(const Body& body, index_t i) {
  { body.columns() } -> std::same_as<index_t>;
  body(i, i);
};

template <class Body>
concept LocalBody = IndexBody<Body> || ElementBody<Body>;

/// Calls the body for all i in [0, count), one after the other; an ElementBody for each (i, j), j in [0, columns()).
template <LocalBody Body>
constexpr void run_body(index_t count, const Body& body) {
  if constexpr (ElementBody<Body>) {
    const index_t columns = body.columns();
    for (index_t i = 0; i < count; ++i) {
      for (index_t j = 0; j < columns; ++j) body(i, j);
    }
  } else {
    for (index_t i = 0; i < count; ++i) body(i);
  }
}

/// Bodies for which kernels are made together.
template <class... Body>
struct BodyList {};

/// f(view) of each of the body's views, as an array in their order.
template <class Body, class F>
[[nodiscard]] constexpr auto map_views(Body body, F&& f) {
  return body.with_views([&](const auto&... view) { return std::array{f(view)...}; });
}

}  // namespace partita
