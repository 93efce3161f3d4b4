// SPDX-License-Identifier: Apache-2.0
// Products whose operands need not meet: from any partition and grid to any other of the same ranks.
#pragma once

#include <type_traits>

#include "partita/matmul/across_run.hpp"
#include "partita/matmul/matmul.hpp"

namespace partita {

namespace detail {

template <class A, class B, class C>
AcrossGeometry across_geometry(const C& c, const A& a, const B& b) {
  using T = typename A::value_type;
  return {.m = a.shape.rows,
          .n = b.shape.cols,
          .k = a.shape.cols,
          .a = placement_of<typename A::partition>(a.grid.ranks(), a.units),
          .b = placement_of<typename B::partition>(b.grid.ranks(), b.units),
          .c = placement_of<typename C::partition>(c.grid().ranks(), c.units()),
          .widened = is_storage_only_v<T>,
          .scratch_bytes = static_cast<index_t>(sizeof(accumulate_t<T>)),
          .prefers_cut_sums = prefers_cut_sums<typename A::context_type::comm_type>};
}

template <class A, class B, class C>
void check_across(const C& c, const A& a, const B& b) {
  using T = typename A::value_type;
  using Ctx = typename A::context_type;
  static_assert(
      MatmulScalar<T> && std::is_same_v<T, typename B::value_type> && std::is_same_v<T, typename C::value_type>,
      "matmul_across: the three need one scalar type that matmul knows");
  static_assert(std::is_same_v<Ctx, typename B::context_type> && std::is_same_v<Ctx, typename C::context_type>,
                "matmul_across: the three need one type of context");
  static_assert(A::partition::layout.partial.empty() && B::partition::layout.partial.empty() &&
                    C::partition::layout.partial.empty(),
                "matmul_across: a tensor is a pending sum; all_reduce it first, or ask for a result that is none");
  if (&a.grid.context() != &c.context() || &b.grid.context() != &c.context()) {
    throw GridError("GridError: matmul_across of tensors of different contexts; all three must lie on the same ranks");
  }
  check_shapes(shapes_of(a, b));
  ProductShapes shapes = shapes_of(a, b);
  shapes.a_units.rows = c.units().rows;  // C is cut as it likes
  shapes.b_units.cols = c.units().cols;
  check_result(shapes, c.shape(), c.units());
  check_alias(c.identity(), a.identity, b.identity);
}

/// Whether the rule of the operands' own partitions gives C as it lies.
template <class Types, class A, class B, class C>
[[nodiscard]] bool rule_reaches(const C& c, const A& a, const B& b) {
  if constexpr (!Types::accepted) {
    return false;
  } else {
    const auto& extents = c.grid().ranks().extents();
    const bool k_meets =
        common_prefix(A::partition::layout.cols, B::partition::layout.rows).empty() || a.units.cols == b.units.rows;
    return a.grid.ranks().extents() == extents && b.grid.ranks().extents() == extents && k_meets &&
           c.units() == Units{a.units.rows, b.units.cols};
  }
}

template <class Types, class A, class B, class C>
[[nodiscard]] RouteCosts costs_of_routes(const AcrossGeometry& geometry, const C& c, const A& a, const B& b,
                                         const MatmulOptions& options) {
  check_options(options);
  if constexpr (Types::accepted) {
    if (rule_reaches<Types>(c, a, b)) {
      const ProductGeometry own = product_geometry(a, b);
      try {
        return route_costs(geometry, options, [&](int rank) {
          ProductGeometry at = own;
          at.coordinates = geometry.c.coordinates(rank);
          return count_of(Types::rule::schedule(at, options)).elements;
        });
      } catch (const CapacityError&) {  // not in the workspace allowed, on any rank: another way may do
      }
    }
  }
  return route_costs(geometry, options, nullptr);
}

template <class A, class B, class C>
using across_types = ProductTypes<std::remove_const_t<A>, std::remove_const_t<B>, typename C::partition>;

}  // namespace detail

/// What each way to make matmul_across_into(c, a, b) moves. Errors: as there. Communicates: nothing.
template <class C, TensorLike A, TensorLike B>
  requires detail::is_dist_tensor_v<C>
[[nodiscard]] RouteCosts across_costs(const C& c, const A& a, const B& b, const MatmulOptions& options = {}) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  detail::check_across(c, left_view, right_view);
  const AcrossGeometry geometry = detail::across_geometry(c, left_view, right_view);
  using Types = detail::across_types<decltype(left_view), decltype(right_view), C>;
  return detail::costs_of_routes<Types>(geometry, c, left_view, right_view, options);
}

/// C = alpha·A·B + beta·C, whatever the partitions, the grids and the units of the three, on the same ranks: made in
/// the way that moves the fewest elements (see Route). No tensor may be a pending sum. Use it where data lies as its
/// owner needs it and is multiplied once or twice; matmul_into tells at compile time what moves.
/// alpha = 0 reads neither A nor B; beta = 0 does not read C.
/// Errors, the same on all ranks and before any write: GridError, ShapeError, AliasError, ArgumentError, and
/// CapacityError where no way fits the workspace. PeerFailed or TimeoutError where a rank fails on the way; C is then
/// in no defined state. Communicates: by `rule`, the steps that explain() prints; by `panels`, an all_to_all_v for each
/// k-panel of A and of B; by `split_k`, an all_to_all_v of A and of B, and the sums of C.
template <class C, TensorLike A, TensorLike B>
  requires detail::is_dist_tensor_v<C>
void matmul_across_into(C& c, const A& a, const B& b, accumulate_t<typename A::value_type> alpha = 1,
                        accumulate_t<typename A::value_type> beta = 0, const MatmulOptions& options = {}) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  using Left = std::remove_const_t<decltype(left_view)>;
  using Right = std::remove_const_t<decltype(right_view)>;
  using T = typename Left::value_type;
  using Ctx = typename Left::context_type;
  detail::check_across(c, left_view, right_view);
  const AcrossGeometry geometry = detail::across_geometry(c, left_view, right_view);
  using Types = detail::across_types<Left, Right, C>;
  const RouteCosts costs = detail::costs_of_routes<Types>(geometry, c, left_view, right_view, options);
  if (!costs.open()) throw_no_workspace(options, across_bytes(geometry, options, 1));
  const Route route = costs.best();
  if constexpr (Types::accepted) {
    if (route == Route::rule) {
      return detail::multiply_views<typename Types::rule>(c, left_view, right_view, alpha, beta, options);
    }
  }
  const AcrossCall<T, T, Ctx> call{
      &c.grid().ranks(), detail::operand_of(left_view), detail::operand_of(right_view), c.local(), alpha, beta};
  run_across(call, geometry, route, route == Route::panels ? *fit_across(geometry, options) : options);
}

/// A·B with partition Result on `grid`, from wherever A and B lie. See matmul_across_into; and two agreements for the
/// new tensor, which takes A's row units and B's column units.
template <class Result, class G, class Ctx, TensorLike A, TensorLike B>
[[nodiscard]] auto matmul_across(const GridHandle<G, Ctx>& grid, const A& a, const B& b,
                                 const MatmulOptions& options = {}) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  DistTensor<typename A::value_type, Result, Ctx> c(grid_as<typename Result::grid_type>(grid),
                                                    {left_view.shape.rows, right_view.shape.cols},
                                                    {left_view.units.rows, right_view.units.cols});
  matmul_across_into(c, left_view, right_view, 1, 0, options);
  return c;
}

}  // namespace partita
