// SPDX-License-Identifier: Apache-2.0
// Products as layers use them: priced without tensors, accumulated into gradients, and with a sum that goes on behind.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "partita/comm/checked/product.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/nn/kernel/elementwise.hpp"
#include "partita/nn/kernel/rows.hpp"
#include "partita/nn/local.hpp"
#include "partita/nn/steps.hpp"
#include "partita/tensor/pending.hpp"

namespace partita::detail {

/// The steps of matmul<Result>(a, b, options) of operands with partitions L and R on the rank at `place`.
template <class T, class L, class R, class Result, class F>
constexpr void product_steps(const Place& place, const Extent2D& a, const Extent2D& b, F&& f,
                             const MatmulOptions& options = {}) {
  const ProductGeometry geometry{.m = a.shape.rows,
                                 .n = b.shape.cols,
                                 .k = a.shape.cols,
                                 .a_units = a.units,
                                 .b_units = b.units,
                                 .extents = place.extents,
                                 .coordinates = place.coordinates,
                                 .widened = is_storage_only_v<T>,
                                 .scratch_bytes = static_cast<index_t>(sizeof(accumulate_t<T>)),
                                 .panels_in_place = place.panels_in_place,
                                 .prefers_all_gather = place.prefers_all_gather,
                                 .prefers_cut_sums = place.prefers_cut_sums};
  rule_for<L, R, Result>::schedule(geometry, options).for_each(f);
}

/// The plan of a product of which Result is asked, and the partition that it has before its pending sum is finished.
template <class L, class R, class Result>
struct PendingProduct {
  static constexpr ProductPlan plan = plan_product(L::layout, R::layout, Result::layout);
  struct Natural {
    static constexpr Layout value = plan.plan.natural;
  };
  using partition = typename PartitionOf<typename Result::grid_type, Natural>::type;
  /// Whether the product can be left pending, and its sum finished by one collective while other work goes on.
  static constexpr bool splits = plan.valid() && sums_in_one_step(partition::layout, Result::layout);
};

/// Whether matmul<Result>() of L and R is one product of the blocks that the rank holds.
template <class L, class R, class Result>
inline constexpr bool product_is_local = [] {
  using Rule = rule_for<L, R, Result>;
  if constexpr (requires { Rule::plan.finish; }) {
    const Plan& plan = Rule::plan.plan;
    return plan.algorithm == Algorithm::local && plan.natural.partial.empty() && plan.sliced == Side::none;
  } else {
    return false;
  }
}();

/// Whether bias and function may be done in the pass of matmul<Result>() of L and R: it is local, and the backend has
/// such a pass. Whether that takes a block is each rank's own matter; so not where ranks compare their calls of matmul.
template <class L, class R, class Result, class T, class Ctx>
inline constexpr bool one_pass_after_product =
    product_is_local<L, R, Result> && LinearBackend<typename Ctx::backend_type, T> &&
    !ComparesProducts<typename Ctx::comm_type>;

/// What matmul<Result>(a, b) gives, not yet written. Communicates: one agreement.
template <class Result, class T, class L, class R, class Ctx>
DistTensor<T, Result, Ctx> uninitialized_product(const DistTensor<T, L, Ctx>& a, const DistTensor<T, R, Ctx>& b) {
  check_operands(a.view(), b.view());
  return DistTensor<T, Result, Ctx>::uninitialized(a.grid(), {a.shape().rows, b.shape().cols},
                                                   {a.units().rows, b.units().cols});
}

/// The block of y += the row; an empty one is none.
template <class T, class P, class Ctx>
void add_row(DistTensor<T, P, Ctx>& y, View<const T> row) {
  if (!row.empty()) for_each_index(y.context().backend(), y.local().rows, kernel::AddRow<T>{row, y.local()});
}

/// y = a·b + bias. Pre: one_pass_after_product.
template <class Result, class T, class L, class R, class Ctx>
void multiply_into(DistTensor<T, Result, Ctx>& y, const DistTensor<T, L, Ctx>& a, const DistTensor<T, R, Ctx>& b,
                   View<const T> bias) {
  auto& backend = y.context().backend();
  const auto in_one_pass = [&] {
    return backend.template linear<T>(1, {a.local()}, {b.local()}, bias, LinearActivation::none, y.local(), {});
  };
  if (!bias.empty() && in_one_pass()) return;
  matmul_into(y, a, b);
  add_row(y, bias);
}

/// before = a·b + bias and y = Function of that. Pre: one_pass_after_product; Function::activation.
template <class Function, class Result, class T, class L, class R, class Ctx>
void multiply_and_apply_into(DistTensor<T, Result, Ctx>& before, DistTensor<T, Result, Ctx>& y,
                             const DistTensor<T, L, Ctx>& a, const DistTensor<T, R, Ctx>& b, View<const T> bias) {
  auto& backend = y.context().backend();
  if (backend.template linear<T>(1, {a.local()}, {b.local()}, bias, Function::activation, y.local(), before.local())) {
    return;
  }
  multiply_into(before, a, b, bias);
  for_each_index(backend, y.local().rows, kernel::Apply<T, Function>{before.local(), y.local()});
}

/// matmul<Result>(a, b) + bias, where bias is this rank's part of a row [1, N], cut as the columns of Result, or empty:
/// in one pass where the product is local and the backend has one. Communicates the same with and without.
template <class Result, class T, class L, class R, class Ctx>
DistTensor<T, Result, Ctx> matmul_with_bias(const DistTensor<T, L, Ctx>& a, const DistTensor<T, R, Ctx>& b,
                                            View<const T> bias) {
  if constexpr (one_pass_after_product<L, R, Result, T, Ctx>) {
    auto y = uninitialized_product<Result>(a, b);
    multiply_into(y, a, b, bias);
    return y;
  } else {
    auto y = matmul<Result>(a, b);
    add_row(y, bias);
    return y;
  }
}

/// `in` rounded once to 16 bits.
template <class T, class P, class Ctx>
DistTensor<T, P, Ctx> narrowed(DistTensor<accumulate_t<T>, P, Ctx> in) {
  if constexpr (is_storage_only_v<T>) {
    auto out = DistTensor<T, P, Ctx>::uninitialized(in.grid(), in.shape(), in.units());
    const DistTensor<accumulate_t<T>, P, Ctx>& source = in;
    in.context().backend().template combine<T>(0, source.local(), out.local());
    return out;
  } else {
    return in;
  }
}

/// For a sum that other work hides.
inline constexpr MatmulOptions sum_whole{.sum_width = std::numeric_limits<index_t>::max()};

/// matmul<Result>(a, b), while whose sum over ranks moves `meanwhile()` is run; the sum is of the whole product.
template <class Result, TensorLike A, TensorLike B, class Work>
auto matmul_while(const A& a, const B& b, Work&& meanwhile) {
  using Left = std::remove_cvref_t<decltype(as_view(a))>;
  using Right = std::remove_cvref_t<decltype(as_view(b))>;
  using Pending = PendingProduct<typename Left::partition, typename Right::partition, Result>;
  using T = typename Left::value_type;
  if constexpr (Pending::splits) {
    auto sum = begin_sum<Result>(matmul<typename Pending::partition>(a, b));
    meanwhile();
    return narrowed<T>(sum.wait());
  } else {
    auto product = matmul<Result>(a, b, sum_whole);
    meanwhile();
    return product;
  }
}

/// The steps of matmul_while<Result>().
template <class T, class L, class R, class Result, class F>
constexpr void product_while_steps(const Place& place, const Extent2D& a, const Extent2D& b, F&& f) {
  product_steps<T, L, R, Result>(place, a, b, f, sum_whole);
}

}  // namespace partita::detail
