// SPDX-License-Identifier: Apache-2.0
// Finishing a pending sum: the tensor whose value is the sum of what the ranks hold becomes an ordinary one.
#pragma once

#include "partita/tensor/dist_tensor.hpp"

namespace partita {

namespace detail {
template <class P>
struct WithoutPending;
template <class G, class R, class C, class S>
struct WithoutPending<Partition<G, R, C, S>> {
  using type = Partition<G, R, C>;
};
}  // namespace detail

/// The partition P with its pending sum finished on every rank: replicated over what were the axes of the sum.
template <class P>
using without_pending_t = typename detail::WithoutPending<P>::type;

/// The sum over the axes of P's PartialOver, on all ranks along them. A tensor without a pending sum is refused.
/// Communicates: one agreement, and one all_reduce of the block along those axes.
template <class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, without_pending_t<P>, Ctx> all_reduce(const DistTensor<T, P, Ctx>& pending) {
  static_assert(!P::layout.partial.empty(), "all_reduce(): the tensor is no pending sum");
  auto sum = DistTensor<T, without_pending_t<P>, Ctx>::uninitialized(pending.grid(), pending.shape(), pending.units());
  pending.grid().ranks().comm(P::layout.partial).all_reduce(pending.local(), sum.local(), ReduceOp::sum).wait();
  return sum;
}

}  // namespace partita
