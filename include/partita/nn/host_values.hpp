// SPDX-License-Identifier: Apache-2.0
// Numbers that the host must know: a loss, a norm, a count.
#pragma once

#include <array>
#include <cstddef>

#include "partita/context.hpp"

namespace partita {

/// The first `count` elements of a row in the context's memory, as the host sees them. On a device this waits for all
/// work of the rank, as Context::sync() does.
template <std::size_t count, class Ctx, class T>
[[nodiscard]] std::array<T, count> host_values(Ctx& context, View<const T> row) {
  std::array<T, count> values{};
  const auto n = static_cast<index_t>(count);
  context.sync();
  context.backend().template copy<T>(row.sub({{0, 1}, {0, n}}), row_view(values.data(), n));
  context.sync();
  return values;
}
template <std::size_t count, class Ctx, class T>
[[nodiscard]] std::array<T, count> host_values(Ctx& context, View<T> row) {
  return host_values<count>(context, View<const T>(row));
}

}  // namespace partita
