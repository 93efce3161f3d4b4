// SPDX-License-Identifier: Apache-2.0
// Copies and rank-ordered sums of strided rectangles, through a tile that stays in cache.
#pragma once

#include <algorithm>
#include <cstring>

#include "partita/base/error.hpp"
#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

/// Copies a rectangle. Pre: equal shapes; the two are apart or one and the same.
template <class T>
void copy_rectangle(View<const T> from, View<T> to) noexcept {
  if (from.empty() || from.data == to.data) return;
  if (from.contiguous() && to.contiguous()) {
    std::memcpy(static_cast<void*>(to.data), from.data, static_cast<std::size_t>(from.size()) * sizeof(T));
    return;
  }
  for (index_t i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}

/// Calls f(pointer, offset, count) for the runs in memory of `count` elements from `begin` on, in row-major order.
template <class T, class F>
void for_each_run(View<T> v, index_t begin, index_t count, F f) {
  if (v.contiguous()) {
    f(v.data + begin, index_t{0}, count);
    return;
  }
  index_t row = begin / v.cols;
  index_t col = begin % v.cols;
  for (index_t offset = 0; offset < count; ++row, col = 0) {
    const index_t run = std::min(v.cols - col, count - offset);
    f(v.row(row) + col, offset, run);
    offset += run;
  }
}

/// NaN is the largest of all, so that it survives.
template <class T>
[[nodiscard]] constexpr T larger(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return (b > a || b != b) ? b : a;
  } else {
    return b > a ? b : a;
  }
}

template <class T>
void combine(T* __restrict into, const T* __restrict from, index_t n, [[maybe_unused]] ReduceOp op) noexcept {
  if constexpr (std::is_arithmetic_v<T>) {
    if (op == ReduceOp::max) {
      for (index_t i = 0; i < n; ++i) into[i] = larger(into[i], from[i]);
      return;
    }
  }
  for (index_t i = 0; i < n; ++i) into[i] = static_cast<T>(into[i] + from[i]);
}

/// For the elements `range` of a rectangle, in row-major order:
///   output(0 … outputs-1) = [output(0) +] contribution(0) + contribution(1) + … + contribution(contributions-1).
/// All is read before anything of the same elements is written, so outputs may be contributions.
template <class T, class Contribution, class Output>
void combine_range(Range range, ReduceOp op, Into into, int contributions, Contribution contribution, int outputs,
                   Output output) {
  constexpr index_t tile_size = 16384 / static_cast<index_t>(sizeof(T));
  alignas(64) std::byte memory[16384];
  T* tile = reinterpret_cast<T*>(memory);
  for (index_t begin = range.begin; begin < range.end; begin += tile_size) {
    const index_t n = std::min(tile_size, range.end - begin);
    const auto load = [tile](const T* from, index_t at, index_t count) { std::copy_n(from, count, tile + at); };
    const auto add = [tile, op](const T* from, index_t at, index_t count) { combine(tile + at, from, count, op); };
    const auto store = [tile](T* to, index_t at, index_t count) { std::copy_n(tile + at, count, to); };
    int next = 0;
    if (into == Into::accumulate) {
      for_each_run(View<const T>(output(0)), begin, n, load);
    } else {
      for_each_run(View<const T>(contribution(next++)), begin, n, load);
    }
    for (; next < contributions; ++next) for_each_run(View<const T>(contribution(next)), begin, n, add);
    for (int o = 0; o < outputs; ++o) for_each_run(View<T>(output(o)), begin, n, store);
  }
}

/// Whether the type knows the operation: sums for all that can be summed, the maximum where there is an order.
template <class T>
void check_reduction(const char* operation, [[maybe_unused]] ReduceOp op) {
  static_assert(Summable<T>, "only arithmetic types and complex numbers are summed; sum 16-bit data in fp32");
  if constexpr (!std::is_arithmetic_v<T>) {
    if (op == ReduceOp::max) {
      throw ArgumentError(std::string("ArgumentError: ") + operation + ": complex numbers have no maximum; use sum");
    }
  }
}

}  // namespace partita::detail
