// SPDX-License-Identifier: Apache-2.0
// The product of two distributed matrices: the types of the operands choose the algorithm.
#pragma once

#include <type_traits>
#include <utility>

#include "partita/matmul/check.hpp"
#include "partita/matmul/rule.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

/// What the schedule of op(A)·op(B) depends on, for operands that are views: for MatmulRule<A, B>::schedule(), whose
/// count_of() is the product's price.
template <class A, class B>
[[nodiscard]] ProductGeometry product_geometry(const A& a, const B& b) {
  const auto& grid = a.grid.ranks();
  return {.m = a.shape.rows,
          .n = b.shape.cols,
          .k = a.shape.cols,
          .a_units = a.units,
          .b_units = b.units,
          .extents = grid.extents(),
          .coordinates = grid.coordinates(),
          .widened = is_storage_only_v<typename A::value_type>,
          .scratch_bytes = static_cast<index_t>(sizeof(accumulate_t<typename A::value_type>)),
          .panels_in_place = A::context_type::comm_type::panels_in_place,
          .prefers_all_gather = prefers_all_gather<typename A::context_type::comm_type>,
          .prefers_cut_sums = prefers_cut_sums<typename A::context_type::comm_type>};
}

namespace detail {

/// The partition asked for, with the extents that the operands fix.
template <class P, class G>
struct OnMeetingGrid {
  static constexpr bool meets = grids_meet<typename P::grid_type, G>;
  using grid_type = typename P::grid_type;
  using type = std::conditional_t<meets, on_grid_t<P, G>, automatic>;
};
template <class G>
struct OnMeetingGrid<automatic, G> {
  static constexpr bool meets = true;
  using grid_type = G;
  using type = automatic;
};

/// Why a product is refused before its partitions are looked at; nothing_to_change where it is not.
template <class A, class B, class Asked>
consteval auto remedy_of_operands() {
  using T = typename A::value_type;
  using GA = typename A::partition::grid_type;
  using GB = typename B::partition::grid_type;
  using Result = OnMeetingGrid<Asked, meet_grids_t<GA, GB>>;
  if constexpr (!std::is_same_v<T, typename B::value_type>) {
    return give_both_one_scalar<T, typename B::value_type>{};
  } else if constexpr (!MatmulScalar<T>) {
    return use_float_double_complex_half_or_bfloat16_instead_of<T>{};
  } else if constexpr (!std::is_same_v<typename A::context_type, typename B::context_type>) {
    return give_both_one_context<typename A::context_type, typename B::context_type>{};
  } else if constexpr (!grids_meet<GA, GB>) {
    return put_both_on_one_grid<GA, GB>{};
  } else if constexpr (!Result::meets) {
    return ask_for_a_result_on_the_operands_grid<meet_grids_t<GA, GB>, typename Result::grid_type>{};
  } else {
    return nothing_to_change{};
  }
}

/// Everything that a pair of operands and the result asked for say about a product at compile time. A refused product
/// has types too, so that no second error follows the refusal.
template <class A, class B, class Asked, class Change = decltype(remedy_of_operands<A, B, Asked>())>
struct ProductTypes {
  using operation = product<spell_t<left, typename A::partition>, spell_t<right, typename B::partition>>;
  using remedy = Change;
  static constexpr bool accepted = false;
  using result = typename A::partition;
  using tensor = DistTensor<typename A::value_type, result, typename A::context_type>;
  using Out = typename A::value_type;
};
template <class A, class B, class Asked>
struct ProductTypes<A, B, Asked, nothing_to_change> {
  using T = typename A::value_type;
  using L = typename A::partition;
  using R = typename B::partition;
  using asked = typename OnMeetingGrid<Asked, meet_grids_t<typename L::grid_type, typename R::grid_type>>::type;
  using rule = rule_for<L, R, asked>;
  static constexpr bool accepted = rule::valid;
  using operation = typename Refusing<L, R, asked, rule>::operation;
  using remedy = typename Refusing<L, R, asked, rule>::remedy;
  using result = typename rule::result;
  /// A pending sum of 16-bit data is stored in fp32.
  using Out = std::conditional_t<result::layout.partial.empty(), T, accumulate_t<T>>;
  using tensor = DistTensor<Out, result, typename A::context_type>;
};

template <class T, class P, class Ctx>
MatrixOperand<T> operand_of(const TensorView<T, P, Ctx>& v) {
  return {v.stored, v.orientation != Orientation::as_stored, v.orientation == Orientation::adjoint};
}

template <class A, class B>
ProductShapes shapes_of(const A& a, const B& b) {
  return {a.shape, b.shape, a.units, b.units};
}

template <class A, class B>
void check_operands(const A& a, const B& b) {
  check_grids(a.grid.ranks(), b.grid.ranks());
  check_shapes(shapes_of(a, b));
  check_units(shapes_of(a, b), A::partition::layout.cols, B::partition::layout.rows);
}

template <class Rule, class C, class A, class B>
void multiply_views(C& c, const A& a, const B& b, accumulate_t<typename A::value_type> alpha,
                    accumulate_t<typename A::value_type> beta, const MatmulOptions& options) {
  using T = typename A::value_type;
  using Ctx = typename A::context_type;
  const ProductCall<T, typename C::value_type, Ctx> call{&a.grid.ranks(), operand_of(a), operand_of(b), a.block(),
                                                         b.block(),       c.local(),     alpha,         beta};
  Rule::run(call, product_geometry(a, b), options);
}

}  // namespace detail

/// C = alpha·A·B + beta·C. A and B are tensors or transposed views; the partition of C must be one that the rule (or a
/// specialisation of MatmulRule) gives for theirs: with every pending sum all-reduced, reduce-scattered or kept.
/// alpha = 0 reads neither A nor B; beta = 0 does not read C. The product of 16-bit data may be asked for in fp32.
/// Pre: A is m×k, B k×n, C m×n on the same grid; C's units are A's of its rows and B's of its columns.
/// Errors, the same on all ranks and before any write: GridError, ShapeError, UnitError, AliasError, ArgumentError,
/// CapacityError. PeerFailed or TimeoutError where a rank fails on the way; C is then in no defined state.
/// Communicates: the steps that explain() prints.
template <class C, TensorLike A, TensorLike B>
  requires detail::is_dist_tensor_v<C>
void matmul_into(C& c, const A& a, const B& b, accumulate_t<typename A::value_type> alpha = 1,
                 accumulate_t<typename A::value_type> beta = 0, const MatmulOptions& options = {}) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  using Left = std::remove_const_t<decltype(left_view)>;
  using Right = std::remove_const_t<decltype(right_view)>;
  using Types = detail::ProductTypes<Left, Right, typename C::partition>;
  static_assert(algorithm_exists_for<typename Types::operation, typename Types::remedy>,
                "matmul: no algorithm multiplies these operands");
  if constexpr (Types::accepted) {
    using Value = typename C::value_type;
    static_assert(
        std::is_same_v<Value, typename Types::Out> || std::is_same_v<Value, accumulate_t<typename Left::value_type>>,
        "matmul_into: the result needs the operands' scalar type, or fp32 for 16-bit data (which a pending sum "
        "of them always is)");
    detail::check_operands(left_view, right_view);
    detail::check_grids(left_view.grid.ranks(), c.grid().ranks());
    detail::check_result(detail::shapes_of(left_view, right_view), c.shape(), c.units());
    detail::check_alias(c.identity(), left_view.identity, right_view.identity);
    detail::multiply_views<typename Types::rule>(c, left_view, right_view, alpha, beta, options);
  }
}

/// A·B as a new tensor. With no Result asked for, its partition is the rule's own, every pending sum all-reduced;
/// matmul<Result>(a, b) gives the product in the partition Result, or refuses at compile time.
/// Errors and communication: see matmul_into; and one agreement for the new tensor.
template <class Result = automatic, TensorLike A, TensorLike B>
[[nodiscard]] auto matmul(const A& a, const B& b, const MatmulOptions& options = {}) {
  const auto left_view = as_view(a);
  const auto right_view = as_view(b);
  using Types =
      detail::ProductTypes<std::remove_const_t<decltype(left_view)>, std::remove_const_t<decltype(right_view)>, Result>;
  using Tensor = typename Types::tensor;
  static_assert(algorithm_exists_for<typename Types::operation, typename Types::remedy>,
                "matmul: no algorithm multiplies these operands");
  if constexpr (Types::accepted) {
    detail::check_operands(left_view, right_view);
    Tensor c = Tensor::uninitialized(grid_as<typename Types::result::grid_type>(left_view.grid),
                                     {left_view.shape.rows, right_view.shape.cols},
                                     {left_view.units.rows, right_view.units.cols});
    detail::multiply_views<typename Types::rule>(c, left_view, right_view, 1, 0, options);
    return c;
  } else {  // refused above; a tensor still comes back, so that no second error follows
    return Tensor::uninitialized(grid_as<typename Types::result::grid_type>(left_view.grid), {}, {});
  }
}

}  // namespace partita
