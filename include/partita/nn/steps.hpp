// SPDX-License-Identifier: Apache-2.0
// The steps that layers communicate by, beside those of products: made for a place of the grid, priced, and run.
#pragma once

#include <span>
#include <utility>

#include "partita/comm/concepts.hpp"
#include "partita/grid/process_grid.hpp"
#include "partita/partition/layout.hpp"
#include "partita/schedule/count.hpp"
#include "partita/tensor/dist_tensor.hpp"

namespace partita {

/// Where a rank stands; enough to know its steps without being there.
struct Place {
  AxisValues extents{};
  AxisValues coordinates{};
  /// Whether the communicator's panels are read in their owner's block.
  bool panels_in_place = true;
};

template <class Ctx>
[[nodiscard]] Place place_of(const ProcessGrid<Ctx>& grid) {
  return {grid.extents(), grid.coordinates(), Ctx::comm_type::panels_in_place};
}

/// Global size of a matrix, and the units at which alone it may be cut: what the steps of a layer depend on.
struct Extent2D {
  Shape shape;
  Units units;

  [[nodiscard]] constexpr Extent2D transposed() const noexcept { return {shape.transposed(), units.transposed()}; }
};

template <class T, class P, class Ctx>
[[nodiscard]] Extent2D extent_of(const DistTensor<T, P, Ctx>& tensor) {
  return {tensor.shape(), tensor.units()};
}

/// Sums (or the maximum of) what the ranks along `axes` hold of the rectangle `block`.
[[nodiscard]] constexpr Step all_reduce_step(const Place& place, const AxisList& axes, Block block) {
  Step step;
  step.kind = StepKind::all_reduce;
  step.axes = axes.sorted();
  step.ranks = group_size(step.axes, place.extents);
  step.self = index_along(step.axes, place.extents, place.coordinates);
  step.block = block;
  return step;
}

/// The same of `count` numbers that are no part of a matrix.
[[nodiscard]] constexpr Step all_reduce_step(const Place& place, const AxisList& axes, index_t count) {
  return all_reduce_step(place, axes, Block{{0, 1}, {0, count}});
}

/// Along no axes a step is none: nothing moves, and nothing is counted or run.
template <class F>
constexpr void visit_step(const Step& step, F&& f) {
  if (!step.axes.empty() && step.ranks > 1) f(step);
}

/// out = the sum or maximum over the ranks along `axes` of `data`, in place, as all_reduce_step() prices it.
template <class T, class Ctx>
void all_reduce_along(ProcessGrid<Ctx>& grid, const AxisList& axes, View<T> data, ReduceOp op = ReduceOp::sum) {
  if (axes.empty() || group_size(axes, grid.extents()) == 1) return;
  grid.comm(axes).all_reduce(View<const T>(data), data, op).wait();
}

namespace detail {

/// A generator of steps as the schedule that count_of() and steps_text() read.
template <class Generate>
struct GeneratedSchedule {
  Generate generate;

  template <class F>
  constexpr void for_each(F&& f) const {
    generate(f);
  }
  [[nodiscard]] constexpr index_t workspace() const noexcept { return 0; }
};

}  // namespace detail

/// The schedule of a layer's forward pass over an input of `input` global elements, for the rank at `place`.
template <class L>
[[nodiscard]] auto forward_schedule(const L& layer, const Place& place, const Extent2D& input) {
  const auto generate = [&layer, place, input](auto&& f) { layer.forward_steps(place, input, f); };
  return detail::GeneratedSchedule<decltype(generate)>{generate};
}

/// The schedule of its backward pass; sums of parameter gradients are those of GradientSums.
template <class L>
[[nodiscard]] auto backward_schedule(const L& layer, const Place& place, const Extent2D& input) {
  const auto generate = [&layer, place, input](auto&& f) { layer.backward_steps(place, input, f); };
  return detail::GeneratedSchedule<decltype(generate)>{generate};
}

}  // namespace partita
