// SPDX-License-Identifier: Apache-2.0
// Finishing a pending sum: the tensor whose value is the sum of what the ranks hold becomes an ordinary one.
#pragma once

#include <span>
#include <utility>
#include <vector>

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

namespace detail {

/// Whether the pending sum of `from` ends in `to` by one collective: an all_reduce along all its axes, or, of a sum
/// along one axis, a reduce_scatter that appends this axis to those over the rows or the columns.
constexpr bool sums_in_one_step(const Layout& from, const Layout& to) {
  if (from.partial.empty() || !to.partial.empty()) return false;
  if (to.rows == from.rows && to.cols == from.cols) return true;
  if (from.partial.size() != 1) return false;
  const bool over_rows = to.rows == from.rows + from.partial && to.cols == from.cols;
  return over_rows || (to.cols == from.cols + from.partial && to.rows == from.rows);
}

/// For each rank along the axis of a pending sum, its part of the block `whole` once the sum is scattered into P.
template <class P, class Ctx>
std::vector<Block> scattered_blocks(const ProcessGrid<Ctx>& grid, Shape shape, Units units, int axis, Block whole) {
  std::vector<Block> blocks;
  AxisValues at = grid.coordinates();
  const auto a = static_cast<unsigned>(axis);
  for (at[a] = 0; at[a] < grid.extents()[a]; ++at[a]) {
    const Block part = block_of(P::layout, shape, units, grid.extents(), at);
    blocks.push_back({part.rows.relative_to(whole.rows.begin), part.cols.relative_to(whole.cols.begin)});
  }
  return blocks;
}

}  // namespace detail

/// A sum over ranks that is under way: other work goes on until wait() gives it.
template <class Result, class T, class P, class Ctx>
class SumUnderWay {
  static_assert(detail::sums_in_one_step(P::layout, Result::layout),
                "begin_sum(): the pending sum does not end in this partition by one all_reduce or reduce_scatter");

 public:
  explicit SumUnderWay(DistTensor<T, P, Ctx> pending)
      : pending_(std::move(pending)),
        sum_(DistTensor<T, Result, Ctx>::uninitialized(grid_of(pending_), pending_.shape(), pending_.units())),
        blocks_(blocks()),
        request_(begin()) {}

  /// The sum. Once only; the sum is then the caller's.
  [[nodiscard]] DistTensor<T, Result, Ctx> wait() {
    request_.wait();
    return std::move(sum_);
  }

 private:
  using Request = typename Ctx::comm_type::Request;
  static constexpr bool scatters = Result::layout.rows != P::layout.rows || Result::layout.cols != P::layout.cols;

  static auto grid_of(const DistTensor<T, P, Ctx>& pending) {
    return GridHandle<typename Result::grid_type, Ctx>(pending.grid().shared());
  }
  [[nodiscard]] std::vector<Block> blocks() const {
    if constexpr (scatters) {
      return detail::scattered_blocks<Result>(pending_.grid().ranks(), pending_.shape(), pending_.units(),
                                              P::layout.partial[0], pending_.block());
    } else {
      return {};
    }
  }
  [[nodiscard]] Request begin() {
    auto& comm = pending_.grid().ranks().comm(P::layout.partial);
    if constexpr (scatters) {
      return comm.reduce_scatter(pending_.local(), sum_.local(), std::span<const Block>(blocks_));
    } else {
      return comm.all_reduce(pending_.local(), sum_.local(), ReduceOp::sum);
    }
  }

  DistTensor<T, P, Ctx> pending_;
  DistTensor<T, Result, Ctx> sum_;
  std::vector<Block> blocks_;
  Request request_;
};

/// Begins the sum over the axes of P's PartialOver, and gives it in the partition Result: P without the pending sum, or
/// with its one axis appended to the axes over the rows or the columns.
/// Communicates: one agreement, and one all_reduce or reduce_scatter of the block along those axes.
template <class Result, class T, class P, class Ctx>
[[nodiscard]] auto begin_sum(DistTensor<T, P, Ctx> pending) {
  return SumUnderWay<Result, T, P, Ctx>(std::move(pending));
}

/// The sum over the axes of P's PartialOver, on all ranks along them. A tensor without a pending sum is refused.
/// Communicates: one agreement, and one all_reduce of the block along those axes.
template <class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, without_pending_t<P>, Ctx> all_reduce(const DistTensor<T, P, Ctx>& pending) {
  static_assert(!P::layout.partial.empty(), "all_reduce(): the tensor is no pending sum");
  auto sum = DistTensor<T, without_pending_t<P>, Ctx>::uninitialized(pending.grid(), pending.shape(), pending.units());
  pending.grid().ranks().comm(P::layout.partial).all_reduce(pending.local(), sum.local(), ReduceOp::sum).wait();
  return sum;
}

/// The sum over the one axis of P's PartialOver, of which each rank along it keeps its part: Result is P with this axis
/// appended to those over the rows or the columns.
/// Communicates: one agreement, and one reduce_scatter of the block along that axis.
template <class Result, class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, Result, Ctx> reduce_scatter(const DistTensor<T, P, Ctx>& pending) {
  static_assert(detail::sums_in_one_step(P::layout, Result::layout) && P::layout.partial.size() == 1 &&
                    !std::is_same_v<Result, without_pending_t<P>>,
                "reduce_scatter(): the result is the tensor's partition with the axis of its pending sum appended");
  auto sum = DistTensor<T, Result, Ctx>::uninitialized(
      GridHandle<typename Result::grid_type, Ctx>(pending.grid().shared()), pending.shape(), pending.units());
  const std::vector<Block> blocks = detail::scattered_blocks<Result>(
      pending.grid().ranks(), pending.shape(), pending.units(), P::layout.partial[0], pending.block());
  pending.grid()
      .ranks()
      .comm(P::layout.partial)
      .reduce_scatter(pending.local(), sum.local(), std::span<const Block>(blocks))
      .wait();
  return sum;
}

}  // namespace partita
