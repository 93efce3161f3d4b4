// SPDX-License-Identifier: Apache-2.0
// Every pair of the table multiplied again and again into one result, to see what a repeated product costs.
#pragma once

#include <string>
#include <type_traits>

#include "support/threads.hpp"

namespace partita::test {

/// Calls visit(what, product): product() multiplies one pair of the table, of float or double, with the options given.
template <class Context, class Visit>
void repeated_products(Context& context, int rows, int cols, int depth, const MatmulOptions& options, Visit visit) {
  const auto grid_1d = make_grid<TpGrid<>>(context, context.size());
  const auto grid_2d = make_grid<Grid2D<>>(context, rows, context.size() / rows);
  const auto grid_25d = make_grid<Grid25D<>>(context, depth, cols, context.size() / depth / cols);
  const auto of_scalar = [&]<class T>(std::type_identity<T>, const char* scalar) {
    const auto pair = [&](const auto& grid, auto chosen) {
      using P = decltype(chosen);
      // Divisible by what grids of up to 8 ranks cut, so that all-gathers of slices are used where they are asked for.
      const index_t m = 48, n = 32, k = 64;
      const auto value = [](index_t i, index_t j) { return static_cast<double>((i + 2 * j) % 5 - 2); };
      const auto a = stored<T, typename P::a, P::a_transposed>(grid, {m, k}, value);
      const auto b = stored<T, typename P::b, P::b_transposed>(grid, {k, n}, value);
      auto c = from_function<T, typename P::result>(grid, {m, n}, value);
      visit(scalar, [&] { matmul_into(c, op<P::a_transposed>(a), op<P::b_transposed>(b), T(1), T(2), options); });
    };
    for_pairs_1d([&](auto chosen) { pair(grid_1d, chosen); });
    for_pairs_2d([&](auto chosen) { pair(grid_2d, chosen); });
    for_pairs_25d([&](auto chosen) { pair(grid_25d, chosen); });
  };
  of_scalar(std::type_identity<float>{}, "float");
  of_scalar(std::type_identity<double>{}, "double");
}

}  // namespace partita::test
