// SPDX-License-Identifier: Apache-2.0
// The checks of a rank's own arguments, for communicators whose calls are compared before they see them.
#pragma once

#include <span>

#include "partita/comm/arguments.hpp"
#include "partita/comm/thread/sum.hpp"

namespace partita::detail {

template <class T>
void check_own_reduce(View<const T> in, View<T> out, int root, int rank, int size) {
  check_member("reduce", "root", root, size);
  check_view("reduce", "the input", in);
  if (rank != root) return;
  check_view("reduce", "the output", out);
  check_shape("reduce", "the output", out.shape(), in.shape());
  check_same_or_apart<T>("reduce", in, out);
}

template <class T>
void check_own_all_reduce(View<const T> in, View<T> out, ReduceOp op) {
  check_reduction<T>("all_reduce", op);
  check_view("all_reduce", "the input", in);
  check_view("all_reduce", "the output", out);
  check_shape("all_reduce", "the output", out.shape(), in.shape());
  check_same_or_apart<T>("all_reduce", in, out);
}

/// Of a reduce_scatter or an all_gather: `whole` has the blocks of all, `part` is this rank's.
template <class T>
void check_own_blocks(const char* operation, View<const T> whole, View<const T> part, std::span<const Block> blocks,
                      int rank, int size) {
  check_view(operation, "the whole", whole);
  check_view(operation, "the part", part);
  check_blocks(operation, blocks, rank, size, whole.shape(), part.shape());
  check_own_place<T>(operation, part, whole, blocks[static_cast<std::size_t>(rank)]);
}

}  // namespace partita::detail
