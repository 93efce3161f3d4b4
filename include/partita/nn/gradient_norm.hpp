// SPDX-License-Identifier: Apache-2.0
// The global norm of the gradients, and clipping by it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "partita/nn/host_values.hpp"
#include "partita/nn/kernel/squares.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/parameter.hpp"
#include "partita/nn/steps.hpp"

namespace partita {

/// The 2-norm of all gradients as one vector: each element counts once, whatever the number of ranks that hold it.
/// Squares are added in double. Every rank gets the same bits.
/// Pre: the gradients' sums are finished. Collective over the grid of the parameters.
/// Communicates: gradient_norm_steps().
template <class T, class Ctx>
[[nodiscard]] double gradient_norm(const std::vector<ParameterRef<T, Ctx>>& parameters) {
  if (parameters.empty()) return 0;
  constexpr index_t sums = 256;
  ProcessGrid<Ctx>& grid = *parameters.front().grid;
  auto& backend = grid.context().backend();
  const Memory memory = grid.context().template allocate<double>(sums + 1);
  auto* const data = reinterpret_cast<double*>(memory.get());
  const View<double> parts = row_view(data, sums);
  const View<double> total = row_view(data + sums, 1);
  backend.template scale<double>(0, parts);
  for (const auto& parameter : parameters) {
    if (!parameter.counts_here()) continue;
    for_each_index(backend, sums, kernel::AddSquares<accumulate_t<T>>{parameter.gradient, parts});
  }
  for_each_index(backend, 1, kernel::AddUp{parts, total});
  all_reduce_along(grid, grid.axes(), total);
  return std::sqrt(host_values<1>(grid.context(), total)[0]);
}

/// The steps of gradient_norm() on the rank at `place`, along all `axes` of the grid.
template <class F>
constexpr void gradient_norm_steps(const Place& place, const AxisList& axes, F&& f) {
  visit_step(all_reduce_step(place, axes, 1), f);
}

/// Scales the gradients to the norm `max_norm` where theirs is larger, and gives the norm that they had (Pascanu,
/// Mikolov and Bengio, 2013, algorithm 1). Where it is not finite the gradients stay as they are.
/// Errors, on all ranks: ArgumentError unless max_norm > 0. Pre and communication as those of gradient_norm().
template <class T, class Ctx>
double clip_gradients(const std::vector<ParameterRef<T, Ctx>>& parameters, double max_norm) {
  if (!(max_norm > 0)) {
    throw ArgumentError("ArgumentError: clip_gradients() to a norm of " + std::to_string(max_norm) +
                        ", which must be above 0");
  }
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  using A = accumulate_t<T>;
  for (const auto& parameter : parameters) {
    parameter.grid->context().backend().template scale<A>(static_cast<A>(max_norm / norm), parameter.gradient);
  }
  return norm;
}

}  // namespace partita
