// SPDX-License-Identifier: Apache-2.0
// The steps that layers communicate by, beside those of products: made for a place of the grid, priced, and run.
#pragma once

#include <span>
#include <utility>
#include <vector>

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
  /// Whether it prefers all-gathers of slices to broadcasts of panels.
  bool prefers_all_gather = false;
  /// Whether it prefers sums in parts, which move while the rest is multiplied.
  bool prefers_cut_sums = false;
};

template <class Ctx>
[[nodiscard]] Place place_of(const ProcessGrid<Ctx>& grid) {
  return {grid.extents(), grid.coordinates(), Ctx::comm_type::panels_in_place,
          prefers_all_gather<typename Ctx::comm_type>, prefers_cut_sums<typename Ctx::comm_type>};
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

/// Between the rows that each rank holds of a matrix laid out by `layout` and those that the ranks along the last
/// `axes` axes over its rows hold together: an all_gather, or the reduce_scatter of a sum that is pending over them.
[[nodiscard]] constexpr Step rows_step(StepKind kind, const Place& place, const Layout& layout, int axes,
                                       const Extent2D& matrix) {
  const AxisList kept = layout.rows.slice(0, layout.rows.size() - axes);
  const Dimension rows{matrix.shape.rows, matrix.units.rows};
  Step step;
  step.kind = kind;
  step.parts.over_rows = true;
  step.parts.axes = layout.rows.slice(kept.size(), layout.rows.size());
  step.parts.extents = place.extents;
  step.parts.dimension = rows;
  step.parts.units = nested_units(rows.units(), kept, place.extents, place.coordinates);
  step.axes = step.parts.axes.sorted();
  step.ranks = group_size(step.axes, place.extents);
  step.self = index_along(step.axes, place.extents, place.coordinates);
  step.block = block_of({kept, layout.cols, {}}, matrix.shape, matrix.units, place.extents, place.coordinates);
  return step;
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

/// The part of each rank of a step's group, in the coordinates of the step's block.
inline std::vector<Block> parts_of(const Step& step) {
  std::vector<Block> blocks;
  for (int rank = 0; rank < step.ranks; ++rank) {
    const Block part = step.parts.block_of(rank, step.block);
    blocks.push_back({part.rows.relative_to(step.block.rows.begin), part.cols.relative_to(step.block.cols.begin)});
  }
  return blocks;
}

}  // namespace detail

/// out = the rows that the ranks of the step's group hold together, as rows_step(all_gather) prices it.
template <class T, class Ctx>
void gather_rows_along(ProcessGrid<Ctx>& grid, const Step& step, View<const T> in, View<T> out) {
  if (step.ranks == 1) return grid.context().backend().copy(in, out);
  const std::vector<Block> blocks = detail::parts_of(step);
  grid.comm(step.axes).all_gather(in, out, std::span<const Block>(blocks)).wait();
}

/// out = this rank's rows of the sum over the step's group, as rows_step(reduce_scatter) prices it.
template <class T, class Ctx>
void scatter_rows_along(ProcessGrid<Ctx>& grid, const Step& step, View<const T> in, View<T> out) {
  if (step.ranks == 1) return grid.context().backend().copy(in, out);
  const std::vector<Block> blocks = detail::parts_of(step);
  grid.comm(step.axes).reduce_scatter(in, out, std::span<const Block>(blocks)).wait();
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
