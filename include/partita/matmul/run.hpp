// SPDX-License-Identifier: Apache-2.0
// A product from its plan: the one function that compiled kernels instantiate for each scalar and context.
#pragma once

#include "partita/matmul/executor.hpp"
#include "partita/matmul/workspace.hpp"

namespace partita {

/// One rank's schedule of a planned product, with panels narrowed to the workspace that the options allow.
[[nodiscard]] constexpr ProductSchedule schedule_product(const ProductPlan& plan, const ProductGeometry& geometry,
                                                         const MatmulOptions& options) {
  return {plan, geometry, fit_workspace(plan, geometry, options)};
}

/// Runs it. Pre: shapes, grids and aliasing are checked.
template <class T, class Out, class Ctx>
void run_product(const ProductCall<T, Out, Ctx>& call, const ProductPlan& plan, const ProductGeometry& geometry,
                 const MatmulOptions& options) {
  execute(call, schedule_product(plan, geometry, options));
}

}  // namespace partita

/// Instantiates the products of a scalar in a context, in the unit where it stands; with `extern` before it, declares
/// that another unit does.
#define PARTITA_INSTANTIATE_PRODUCT(T, Ctx)                                                               \
  template void partita::run_product(const partita::ProductCall<T, T, Ctx>&, const partita::ProductPlan&, \
                                     const partita::ProductGeometry&, const partita::MatmulOptions&)
