// SPDX-License-Identifier: Apache-2.0
// The checks of arguments that all communicators share: roots, shapes, blocks and overlapping buffers.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "partita/base/error.hpp"
#include "partita/base/view.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

/// Chunk `part` of n elements cut `parts` ways: the first n mod parts chunks have one more.
[[nodiscard]] constexpr Range balanced_chunk(index_t n, int parts, int part) noexcept {
  const index_t size = n / parts;
  const index_t longer = n % parts;
  const index_t begin = part * size + std::min<index_t>(part, longer);
  return {begin, begin + size + (part < longer ? 1 : 0)};
}

template <class T>
[[nodiscard]] constexpr bool same_view(View<const T> a, View<const T> b) noexcept {
  return a.data == b.data && a.shape() == b.shape() && (a.ld == b.ld || a.rows <= 1);
}

inline void check_member(const char* operation, const char* role, int rank, int size) {
  if (rank >= 0 && rank < size) return;
  throw ArgumentError(std::string("ArgumentError: ") + operation + " with " + role + " " + std::to_string(rank) +
                      ", the communicator has ranks 0 to " + std::to_string(size - 1));
}

[[noreturn]] inline void throw_shape(const char* operation, const char* what, Shape found, Shape wanted) {
  throw ShapeError(std::string("ShapeError: ") + operation + ": " + what + " is " + to_string(found) + ", must be " +
                   to_string(wanted));
}

inline void check_shape(const char* operation, const char* what, Shape found, Shape wanted) {
  if (found != wanted) throw_shape(operation, what, found, wanted);
}

/// A view whose elements can be reached: extents not negative, rows that do not overlap, a pointer if not empty.
template <class T>
void check_view(const char* operation, const char* what, View<T> v) {
  if (v.rows >= 0 && v.cols >= 0 && (v.empty() || (v.data != nullptr && (v.rows == 1 || v.ld >= v.cols)))) return;
  throw ShapeError(std::string("ShapeError: ") + operation + ": " + what + " is " + to_string(v.shape()) +
                   " with leading dimension " + std::to_string(v.ld) +
                   (v.data == nullptr ? " and a null pointer" : "") +
                   "; it needs extents of at least 0, a leading dimension of at least the columns, and memory");
}

[[noreturn]] inline void throw_alias(const char* operation, const char* what) {
  throw AliasError(std::string("AliasError: ") + operation + ": " + what);
}

/// The output may be the input itself, but must not overlap it otherwise.
template <class T>
void check_same_or_apart(const char* operation, View<const T> in, View<const T> out) {
  if (!same_view(in, out) && overlap(in, out))
    throw_alias(operation, "input and output overlap and are not one and the same buffer");
}

/// One block for each rank, each inside `whole`; this rank's has the shape of its own buffer.
inline void check_blocks(const char* operation, std::span<const Block> blocks, int rank, int size, Shape whole,
                         Shape own) {
  if (blocks.size() != static_cast<std::size_t>(size)) {
    throw ArgumentError(std::string("ArgumentError: ") + operation + " with " + std::to_string(blocks.size()) +
                        " blocks, needs one for each of " + std::to_string(size) + " ranks");
  }
  for (const Block& b : blocks) {
    const bool inside = b.rows.begin >= 0 && b.rows.begin <= b.rows.end && b.rows.end <= whole.rows &&
                        b.cols.begin >= 0 && b.cols.begin <= b.cols.end && b.cols.end <= whole.cols;
    if (!inside) {
      throw ShapeError(std::string("ShapeError: ") + operation + ": a block of rows [" + std::to_string(b.rows.begin) +
                       ", " + std::to_string(b.rows.end) + ") and columns [" + std::to_string(b.cols.begin) + ", " +
                       std::to_string(b.cols.end) + ") does not lie in the buffer of " + to_string(whole));
    }
  }
  check_shape(operation, "the own buffer", own, blocks[static_cast<std::size_t>(rank)].shape());
}

/// The small buffer may stand in its own place in the large one, and must not overlap it otherwise.
template <class T>
void check_own_place(const char* operation, View<const T> small, View<const T> large, Block own) {
  if (small.empty() || same_view(small, large.sub(own))) return;
  if (overlap(small, large)) throw_alias(operation, "input and output overlap elsewhere than in the own block's place");
}

/// Nothing received may overlap what is sent or received elsewhere; the own block may stay where it is.
template <class T>
void check_exchange(const char* operation, std::span<const View<const T>> sends, std::span<const View<T>> receives,
                    int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto own = static_cast<std::size_t>(rank);
  if (sends.size() != ranks || receives.size() != ranks) {
    throw ArgumentError(std::string("ArgumentError: ") + operation + " with " + std::to_string(sends.size()) +
                        " views to send and " + std::to_string(receives.size()) +
                        " to receive, needs one for each of " + std::to_string(size) + " ranks");
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    check_view(operation, "a view to send", sends[r]);
    check_view(operation, "a view to receive", receives[r]);
  }
  check_shape(operation, "what this rank receives from itself", receives[own].shape(), sends[own].shape());
  for (std::size_t r = 0; r < ranks; ++r) {
    const View<const T> into = receives[r];
    if (into.empty()) continue;
    for (std::size_t s = 0; s < ranks; ++s) {
      const bool stays = r == own && s == own && same_view(into, sends[s]);
      if (!stays && overlap(into, sends[s])) throw_alias(operation, "a view to receive overlaps a view to send");
      if (s < r && overlap(into, View<const T>(receives[s]))) throw_alias(operation, "two views to receive overlap");
    }
  }
}

}  // namespace partita::detail
