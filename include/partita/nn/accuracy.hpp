// SPDX-License-Identifier: Apache-2.0
// The class with the largest logit, over all classes whatever cuts them, and how often it is the target.
#pragma once

#include <cstdint>

#include "partita/nn/host_values.hpp"
#include "partita/nn/indices.hpp"
#include "partita/nn/kernel/arg_max.hpp"
#include "partita/nn/partitions.hpp"
#include "partita/nn/steps.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

/// [M, 1]: for each row of logits the global class with the largest, the lowest of several; a NaN counts as minus
/// infinity. The same on all ranks along the axes over the columns, -1 where there are no classes.
/// Communicates: two agreements, the maximum of a row, and that of its class, along the axes over the columns.
template <class T, class P, class Ctx>
[[nodiscard]] DistTensor<std::int64_t, tokens_of_t<P>, Ctx> arg_max(const DistTensor<T, P, Ctx>& logits) {
  static_assert(P::layout.partial.empty(), "arg_max(): the tensor is a pending sum; finish it first");
  using A = accumulate_t<T>;
  auto& grid = logits.grid().ranks();
  auto& backend = grid.context().backend();
  const index_t m = logits.shape().rows;
  const index_t unit = logits.units().rows;
  auto values = DistTensor<A, transposed_t<tokens_of_t<P>>, Ctx>::uninitialized(logits.grid(), {2, m}, {1, unit});
  auto found = DistTensor<std::int64_t, tokens_of_t<P>, Ctx>::uninitialized(logits.grid(), {m, 1}, {unit, 1});
  const View<A> both = values.local();
  const index_t rows = logits.local().rows;
  const kernel::RowArgMax<T> largest{logits.local(), logits.block().cols.begin, both, found.local()};
  for_each_index(backend, rows, largest);
  all_reduce_along(grid, P::layout.cols, both.sub({{1, 2}, {0, both.cols}}), ReduceOp::max);
  for_each_index(backend, rows, kernel::KeepLargest<A>{both, found.local()});
  all_reduce_along(grid, P::layout.cols, found.local(), ReduceOp::max);
  for_each_index(backend, rows, kernel::NegateFound{found.local()});
  return found;
}

/// Rows of all ranks whose largest class is their target, of those that are not ignored.
struct Hits {
  index_t correct = 0;
  index_t kept = 0;

  /// Zero where no row is kept.
  [[nodiscard]] double rate() const noexcept {
    return kept > 0 ? static_cast<double>(correct) / static_cast<double>(kept) : 0.0;
  }
};

/// Targets [M, 1] are cut as the rows of the logits [M, V]; the result is the same on all ranks.
/// Errors, the same on all ranks: ShapeError or UnitError where targets do not go with the logits; ArgumentError where
/// a target of any rank is neither a class nor ignored.
/// Communicates: what arg_max() does, three agreements more, and two counts along the axes over the rows.
template <class T, class P, class Ctx>
[[nodiscard]] Hits accuracy(const DistTensor<T, P, Ctx>& logits,
                            const DistTensor<std::int64_t, tokens_of_t<P>, Ctx>& targets,
                            std::int64_t ignore_index = -100) {
  detail::check_targets(logits, targets, ignore_index, "accuracy");
  const auto classes = arg_max(logits);
  DistTensor<std::int64_t, Partition<typename P::grid_type>, Ctx> counts(logits.grid(), {1, 2});
  for_each_index(logits.context().backend(), 1,
                 kernel::CountHits{classes.local(), targets.local(), ignore_index, counts.local()});
  all_reduce_along(logits.grid().ranks(), P::layout.rows, counts.local());
  const auto [correct, kept] = host_values<2>(logits.context(), counts.local());
  return {correct, kept};
}

/// The steps of arg_max() of logits with partition P on the rank at `place`.
template <class P, class F>
constexpr void arg_max_steps(const Place& place, const Extent2D& logits, F&& f) {
  const Range rows =
      nested_block({logits.shape.rows, logits.units.rows}, P::layout.rows, place.extents, place.coordinates);
  visit_step(all_reduce_step(place, P::layout.cols, Block{{0, 1}, rows}), f);
  visit_step(all_reduce_step(place, P::layout.cols, Block{rows, {0, 1}}), f);
}
/// Of accuracy().
template <class P, class F>
constexpr void accuracy_steps(const Place& place, const Extent2D& logits, F&& f) {
  arg_max_steps<P>(place, logits, f);
  visit_step(all_reduce_step(place, P::layout.rows, 2), f);
}

}  // namespace partita
