// SPDX-License-Identifier: Apache-2.0
// Moving a batch between ranks that hold the same rows and ranks that hold their own: each operation with its backward.
#pragma once

#include <utility>

#include "partita/matmul/refusal.hpp"
#include "partita/nn/kernel/rows.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/partitions.hpp"
#include "partita/nn/steps.hpp"
#include "partita/tensor/dist_tensor.hpp"

namespace partita {

/// The words of a refusal, which the compiler prints.
template <class... Lists>
struct from_partition {};
template <class... Lists>
struct to_partition {};

/// Stands in the condition of a refusal so that the compiler prints both partitions.
template <class From, class To, bool Exists>
inline constexpr bool batch_operation_exists = Exists;

namespace detail {

/// Whether `cut` is `whole` with further axes over its rows, which `whole` names nowhere.
constexpr bool cuts_further(const Layout& whole, const Layout& cut) {
  return cut.partial.empty() && cut.rows.starts_with(whole.rows) && cut.cols == whole.cols &&
         (whole.partial.empty() || whole.partial == cut.rows.without(whole.rows).sorted());
}
template <class P>
using from_t = spell_t<from_partition, P>;
template <class P>
using to_t = spell_t<to_partition, P>;

template <class Cut, class Whole>
constexpr Step batch_step(StepKind kind, const Place& place, const Extent2D& matrix) {
  return rows_step(kind, place, Cut::layout, Cut::layout.rows.size() - Whole::layout.rows.size(), matrix);
}

template <class Target, class T, class P, class Ctx>
auto same_matrix(const DistTensor<T, P, Ctx>& x) {
  return DistTensor<T, Target, Ctx>::uninitialized(GridHandle<typename Target::grid_type, Ctx>(x.grid().shared()),
                                                   x.shape(), x.units());
}

}  // namespace detail

/// This rank's rows of what ranks hold alike: Target is P with further axes over its rows, block k·q + r of d·q over
/// (Depth, Row). Communicates: one agreement, and nothing else. Backward: gather_batch.
template <class Target, class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, Target, Ctx> split_batch(const DistTensor<T, P, Ctx>& x) {
  constexpr bool exists = detail::cuts_further(P::layout, Target::layout) && P::layout.partial.empty();
  static_assert(batch_operation_exists<detail::from_t<P>, detail::to_t<Target>, exists>,
                "split_batch(): the target is the tensor's partition with further axes over its rows");
  auto out = detail::same_matrix<Target>(x);
  const Range rows = out.block().rows.relative_to(x.block().rows.begin);
  x.context().backend().copy(x.local().sub({rows, {0, x.local().cols}}), out.local());
  return out;
}

/// The rows of all ranks along the last axes over P's rows, on each of them: Target is P without these axes.
/// Communicates: one agreement, and one all_gather of rows. Backward: reduce_scatter_batch, where what came out was
/// read by each rank for itself; split_batch, where all ranks have its whole gradient.
template <class Target, class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, Target, Ctx> gather_batch(const DistTensor<T, P, Ctx>& x) {
  constexpr bool exists = detail::cuts_further(Target::layout, P::layout) && Target::layout.partial.empty();
  static_assert(batch_operation_exists<detail::from_t<P>, detail::to_t<Target>, exists>,
                "gather_batch(): the target is the tensor's partition without the last axes over its rows");
  auto out = detail::same_matrix<Target>(x);
  auto& grid = x.grid().ranks();
  const Step step = detail::batch_step<P, Target>(StepKind::all_gather, place_of(grid), extent_of(x));
  gather_rows_along(grid, step, x.local(), out.local());
  return out;
}

/// This rank's rows of a pending sum: Target is P with the axes of the sum, in any order, appended to those over its
/// rows. Sums run in rank order; 16-bit data is summed in fp32, so `pending` is of a type that can be summed.
/// Communicates: one agreement, and one reduce_scatter of rows. Backward: gather_batch.
template <class Target, class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, Target, Ctx> reduce_scatter_batch(const DistTensor<T, P, Ctx>& pending) {
  constexpr bool exists = detail::cuts_further(P::layout, Target::layout) &&
                          P::layout.partial == Target::layout.rows.without(P::layout.rows).sorted();
  static_assert(
      batch_operation_exists<detail::from_t<P>, detail::to_t<Target>, exists>,
      "reduce_scatter_batch(): the target is the tensor's partition with the axes of its sum appended to its rows'");
  auto out = detail::same_matrix<Target>(pending);
  auto& grid = pending.grid().ranks();
  const Step step = detail::batch_step<Target, P>(StepKind::reduce_scatter, place_of(grid), extent_of(pending));
  scatter_rows_along(grid, step, pending.local(), out.local());
  return out;
}

/// The gradient of split_batch()'s input: all ranks held it alike, and each gives the gradient of its rows.
template <class P, class T, class Cut, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> split_batch_backward(const DistTensor<T, Cut, Ctx>& dy) {
  return gather_batch<P>(dy);
}
/// The gradient of gather_batch()'s input, given that of its output as the pending sum of what each rank found.
template <class P, class T, class Pending, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> gather_batch_backward(const DistTensor<T, Pending, Ctx>& dy) {
  return reduce_scatter_batch<P>(dy);
}
/// The gradient of each term of reduce_scatter_batch()'s input: the same for all ranks, and so no pending sum.
template <class P, class T, class Cut, class Ctx>
[[nodiscard]] auto reduce_scatter_batch_backward(const DistTensor<T, Cut, Ctx>& dy) {
  return gather_batch<Partition<typename P::grid_type, typename P::rows_over, typename P::cols_over>>(dy);
}

enum class BatchReduction { sum, mean };

/// [1, N]: the sum or the mean of all M rows of X, on all ranks. The mean divides by the true M, whatever each rank
/// holds of it; the mean of no rows is zero.
/// Communicates: two agreements, and one all_reduce of a row along the axes over P's rows.
template <class T, class P, class Ctx>
[[nodiscard]] auto reduce_batch(const DistTensor<T, P, Ctx>& x, BatchReduction reduction = BatchReduction::sum) {
  static_assert(P::layout.partial.empty(), "reduce_batch(): the tensor is a pending sum; finish it first");
  using A = accumulate_t<T>;
  DistTensor<A, features_of_t<P>, Ctx> out(x.grid(), {1, x.shape().cols}, {1, x.units().cols});
  auto& backend = x.context().backend();
  const kernel::SumRows<T> sum{x.local(), out.local()};
  for_each_index(backend, sum.stripes(), sum);
  all_reduce_along(x.grid().ranks(), P::layout.rows, out.local());
  if (reduction == BatchReduction::mean && x.shape().rows > 0) {
    backend.template scale<A>(A(1) / static_cast<A>(x.shape().rows), out.local());
  }
  return out;
}

/// The gradient of reduce_batch()'s input, a matrix of partition P and extent `x`: each of its rows is dY (over the
/// true count of rows). Communicates: one agreement.
template <class P, class T, class A, class F, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> reduce_batch_backward(const DistTensor<A, F, Ctx>& dy, const Extent2D& x,
                                                          BatchReduction reduction = BatchReduction::sum) {
  auto dx = DistTensor<T, P, Ctx>::uninitialized(dy.grid(), x.shape, x.units);
  const bool mean = reduction == BatchReduction::mean && x.shape.rows > 0;
  const A factor = mean ? A(1) / static_cast<A>(x.shape.rows) : A(1);
  for_each_index(dx.context().backend(), dx.local().rows, kernel::SpreadRow<T>{dy.local(), factor, dx.local()});
  return dx;
}

/// The steps of gather_batch<Target>() of a matrix with partition P on the rank at `place`.
template <class P, class Target, class F>
constexpr void gather_batch_steps(const Place& place, const Extent2D& matrix, F&& f) {
  visit_step(detail::batch_step<P, Target>(StepKind::all_gather, place, matrix), f);
}
/// Of reduce_scatter_batch<Target>().
template <class P, class Target, class F>
constexpr void reduce_scatter_batch_steps(const Place& place, const Extent2D& matrix, F&& f) {
  visit_step(detail::batch_step<Target, P>(StepKind::reduce_scatter, place, matrix), f);
}
/// Of reduce_batch().
template <class P, class F>
constexpr void reduce_batch_steps(const Place& place, const Extent2D& matrix, F&& f) {
  const Block row = block_of(features_of_t<P>::layout, {1, matrix.shape.cols}, {1, matrix.units.cols}, place.extents,
                             place.coordinates);
  visit_step(all_reduce_step(place, P::layout.rows, row), f);
}

}  // namespace partita
