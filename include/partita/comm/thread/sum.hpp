// SPDX-License-Identifier: Apache-2.0
// Copies and rank-ordered sums of strided rectangles, through a tile that stays in cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

/// A rank that reads more than this in one reduction leaves little of the result in cache: it is written past the
/// cache, which spares the reading of what it replaces. Tiles of many buffers have a later turning point than lines.
inline constexpr std::size_t streamed_lines_bytes = std::size_t{2} << 20;
inline constexpr std::size_t streamed_tiles_bytes = std::size_t{8} << 20;

/// Copies past the caches where the processor can. Peers may read it after end_of_streams().
template <class T>
void stream_out(const T* from, index_t count, T* to) noexcept {
#if defined(__SSE2__)
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  const auto* in = reinterpret_cast<const std::byte*>(from);
  auto* out = reinterpret_cast<std::byte*>(to);
  const std::size_t head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64);
  std::memcpy(out, in, head);
  std::size_t done = head;
  for (; done + 64 <= bytes; done += 64) {  // whole lines
    for (std::size_t i = 0; i < 64; i += 16) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + done + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + done + i), x);
    }
  }
  std::memcpy(out + done, in + done, bytes - done);
#else
  std::copy_n(from, count, to);
#endif
}
inline void end_of_streams() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// For the elements of `range` of buffers without gaps: all outputs = contribution(0) + contribution(1) + …, a line of
/// the cache at a time, so that all buffers are read and written at once, and past the caches. False, with nothing
/// done, where that cannot be, or does not pay: fewer than 3 or more than 8 contributions, or outputs whose lines
/// differ.
template <class T, class Contribution, class Output>
bool sum_lines(Range range, int contributions, Contribution contribution, int outputs, Output output) noexcept {
#if defined(__SSE2__)
  constexpr int most = 8;
  constexpr std::size_t line_bytes = 64;
  constexpr index_t line_size = static_cast<index_t>(line_bytes / sizeof(T));
  if (line_bytes % sizeof(T) != 0 || contributions < 3 || contributions > most || outputs > most) return false;
  const T* in[most] = {};
  T* out[most] = {};
  for (int c = 0; c < contributions; ++c) {
    const View<const T> from = contribution(c);
    if (!from.contiguous()) return false;
    in[c] = from.data + range.begin;
  }
  const auto misaligned = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p) % line_bytes; };
  for (int o = 0; o < outputs; ++o) {
    const View<T> to = output(o);
    if (!to.contiguous()) return false;
    out[o] = to.data + range.begin;
    if (misaligned(out[o]) != misaligned(out[0])) return false;
  }
  const std::size_t head_bytes = (line_bytes - misaligned(out[0])) % line_bytes;
  if (head_bytes % sizeof(T) != 0) return false;
  const index_t head = std::min(range.size(), static_cast<index_t>(head_bytes / sizeof(T)));
  const auto one_by_one = [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      T sum = in[0][i];
      for (int c = 1; c < contributions; ++c) sum = static_cast<T>(sum + in[c][i]);
      for (int o = 0; o < outputs; ++o) out[o][i] = sum;
    }
  };
  one_by_one(0, head);
  index_t i = head;
  for (; i + line_size <= range.size(); i += line_size) {
    alignas(line_bytes) T line[line_bytes / sizeof(T)];
    std::copy_n(in[0] + i, line_size, line);
    for (int c = 1; c < contributions; ++c) combine(line, in[c] + i, line_size, ReduceOp::sum);
    for (int o = 0; o < outputs; ++o) {
      for (index_t j = 0; j < line_size; j += static_cast<index_t>(16 / sizeof(T))) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out[o] + i + j),
                         _mm_load_si128(reinterpret_cast<const __m128i*>(line + j)));
      }
    }
  }
  one_by_one(i, range.size());
  return true;
#else
  return false;
#endif
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
  const auto read = static_cast<std::size_t>(range.size() * contributions) * sizeof(T);
  if (into == Into::overwrite && op == ReduceOp::sum && read > streamed_lines_bytes &&
      sum_lines<T>(range, contributions, contribution, outputs, output)) {
    return end_of_streams();
  }
  const bool streams = into == Into::overwrite && read > streamed_tiles_bytes;
  for (index_t begin = range.begin; begin < range.end; begin += tile_size) {
    const index_t n = std::min(tile_size, range.end - begin);
    const auto load = [tile](const T* from, index_t at, index_t count) { std::copy_n(from, count, tile + at); };
    const auto add = [tile, op](const T* from, index_t at, index_t count) { combine(tile + at, from, count, op); };
    const auto store = [tile, streams](T* to, index_t at, index_t count) {
      streams ? stream_out(tile + at, count, to) : static_cast<void>(std::copy_n(tile + at, count, to));
    };
    int next = 0;
    if (into == Into::accumulate) {
      for_each_run(View<const T>(output(0)), begin, n, load);
    } else {
      for_each_run(View<const T>(contribution(next++)), begin, n, load);
    }
    for (; next < contributions; ++next) for_each_run(View<const T>(contribution(next)), begin, n, add);
    for (int o = 0; o < outputs; ++o) for_each_run(View<T>(output(o)), begin, n, store);
  }
  if (streams) end_of_streams();
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
