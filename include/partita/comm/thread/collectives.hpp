// SPDX-License-Identifier: Apache-2.0
// What each collective does with the posts of the others, and whom it credits with the elements that it touches.
#pragma once

#include "partita/comm/arguments.hpp"
#include "partita/comm/thread/ring.hpp"
#include "partita/comm/thread/sum.hpp"

namespace partita::detail {

inline void credit(const Operation& o, int member, index_t messages, index_t elements, std::size_t bytes) noexcept {
  Endpoint& end = *o.endpoint;
  if (elements > 0) end.world->credit(end.group->world_rank(member), messages, elements, bytes);
}

inline void check_posted_shape(const Operation& o, int member, const Rectangle& found, Shape wanted) {
  const Shape shape{found.rows, found.cols};
  if (shape == wanted) return;
  throw ShapeError(std::string("ShapeError: ") + o.name + ": rank " + std::to_string(member) + " has " +
                   to_string(shape) + ", rank " + std::to_string(o.endpoint->rank) + " expects " + to_string(wanted));
}

/// A non-root copies from the root.
template <class T>
void work_broadcast(Operation& o) {
  const Post& root = post_of(o, o.post.root);
  const View<T> out = view_of<T>(o.post.out);
  check_posted_shape(o, o.post.root, root.out, out.shape());
  copy_rectangle(view_of<const T>(root.out), out);
  credit(o, o.endpoint->rank, 1, out.size(), sizeof(T));
}

/// The views that all members have posted as input, checked to be of one shape.
template <class T>
void check_inputs(const Operation& o, Shape wanted) {
  for (int m = 0; m < o.endpoint->group->size; ++m) check_posted_shape(o, m, post_of(o, m).in, wanted);
}

template <class T>
[[nodiscard]] View<const T> input_of(const Operation& o, int member) noexcept {
  return view_of<const T>(o.endpoint->group->operation(o.ticket, member).post.in);
}

/// The root sums what all have posted.
template <class T>
void work_reduce(Operation& o) {
  Endpoint& end = *o.endpoint;
  const View<T> out = view_of<T>(o.post.out);
  check_inputs<T>(o, out.shape());
  combine_range<T>(
      {0, out.size()}, ReduceOp::sum, o.post.into, end.group->size, [&o](int m) { return input_of<T>(o, m); }, 1,
      [&out](int) { return out; });
  for (int m = 0; m < end.group->size; ++m) {
    if (m != end.rank) credit(o, m, 1, out.size(), sizeof(T));
  }
}

/// Each member combines its own chunk and pushes it to all while it is in cache. Only member r touches chunk r of any
/// buffer, so inputs may be outputs.
template <class T>
void work_all_reduce(Operation& o) {
  Endpoint& end = *o.endpoint;
  Group& group = *end.group;
  const Shape shape{o.post.in.rows, o.post.in.cols};
  check_inputs<T>(o, shape);
  const Range chunk = balanced_chunk(shape.size(), group.size, end.rank);
  const auto output = [&](int m) { return view_of<T>(group.operation(o.ticket, m).post.out); };
  combine_range<T>(
      chunk, o.post.op, Into::overwrite, group.size, [&o](int m) { return input_of<T>(o, m); }, group.size, output);
  for (int m = 0; m < group.size; ++m) {
    if (m != end.rank) credit(o, m, 2, 2 * chunk.size(), sizeof(T));
  }
}

/// Each member sums its own block.
template <class T>
void work_reduce_scatter(Operation& o) {
  Endpoint& end = *o.endpoint;
  check_inputs<T>(o, {o.post.in.rows, o.post.in.cols});
  const View<T> out = view_of<T>(o.post.out);
  const Block own = o.blocks[static_cast<std::size_t>(end.rank)];
  combine_range<T>(
      {0, out.size()}, ReduceOp::sum, Into::overwrite, end.group->size,
      [&](int m) { return input_of<T>(o, m).sub(own); }, 1, [&out](int) { return out; });
  for (int m = 0; m < end.group->size; ++m) {
    if (m != end.rank) credit(o, m, 1, out.size(), sizeof(T));
  }
}

/// Each member copies the blocks of the others, beginning with the next rank's so that not all read the same one.
template <class T>
void work_all_gather(Operation& o) {
  Endpoint& end = *o.endpoint;
  const View<T> out = view_of<T>(o.post.out);
  for (int i = 0; i < end.group->size; ++i) {
    const int m = (end.rank + i) % end.group->size;
    const Block block = o.blocks[static_cast<std::size_t>(m)];
    check_posted_shape(o, m, post_of(o, m).in, block.shape());
    copy_rectangle(input_of<T>(o, m), out.sub(block));
    if (m != end.rank) credit(o, end.rank, 1, block.size(), sizeof(T));
  }
}

template <class T>
void work_all_to_all_v(Operation& o) {
  Endpoint& end = *o.endpoint;
  const auto* receives = static_cast<const View<T>*>(o.receives);
  for (int i = 0; i < end.group->size; ++i) {
    const int m = (end.rank + i) % end.group->size;
    const View<T> to = receives[m];
    const View<const T> from = static_cast<const View<const T>*>(post_of(o, m).table)[end.rank];
    check_posted_shape(o, m, rectangle(from), to.shape());
    copy_rectangle(from, to);
    if (m != end.rank) credit(o, end.rank, 1, to.size(), sizeof(T));
  }
}

/// Begins a collective that all members post and all work on; complete when all are done, or, with
/// `own_work_only`, when this one is.
inline void begin_for_all(Operation& o, void (*work)(Operation&), bool own_work_only = false) {
  o.work = work;
  o.then_done = !own_work_only;
  open_task(*o.endpoint->me, o);
  publish(o, false);
}

}  // namespace partita::detail
