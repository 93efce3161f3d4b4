// SPDX-License-Identifier: Apache-2.0
// Moves a tensor to another partition, on the same grid or another one of the same ranks.
#pragma once

#include <span>
#include <vector>

#include "partita/redistribute/exchange.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

namespace detail {

/// The views that an exchange sends to and receives from each rank: `in` is the block before, `out` what is wanted of
/// the block after. Both may be stored transposed.
template <class T>
void exchanged_views(const Exchange& exchange, bool transposed, View<const T> in, View<T> out, View<const T>* sends,
                     View<T>* receives) {
  const auto part = [transposed](auto whole, Block piece, Block origin) {
    if (piece.size() == 0) return decltype(whole){};
    const Block b{piece.rows.relative_to(origin.rows.begin), piece.cols.relative_to(origin.cols.begin)};
    return whole.sub(transposed ? b.transposed() : b);
  };
  for (int rank = 0; rank < exchange.ranks(); ++rank) {
    sends[rank] = part(in, exchange.piece(exchange.self(), rank), exchange.held());
    receives[rank] = part(out, exchange.piece(rank, exchange.self()), exchange.wanted());
  }
}

/// Runs an exchange on one rank, of blocks that may be stored transposed. Collective over the context's ranks.
template <class T, class Ctx>
void run_exchange(Ctx& context, const Exchange& exchange, View<const T> in, View<T> out, bool transposed = false) {
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  std::vector<View<const T>> sends(ranks);
  std::vector<View<T>> receives(ranks);
  exchanged_views(exchange, transposed, in, out, sends.data(), receives.data());
  if (exchange.local()) {
    const auto self = static_cast<std::size_t>(exchange.self());
    if (!receives[self].empty()) context.backend().template copy<T>(sends[self], receives[self]);
    return;
  }
  context.comm().all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
}

template <class P, class Ctx>
Placement placement_of(const ProcessGrid<Ctx>& grid, Units units) {
  return {P::layout, grid.axes(), grid.extents(), units};
}

}  // namespace detail

/// The same matrix with partition `Target` on `grid`, whose ranks are those of x's grid, bit for bit. A dimension's
/// units are kept unless others are given.
/// Errors, on all ranks: GridError where the grid is of another context or extents; ShapeError, CapacityError.
/// Communicates: the agreements of construction, and one all_to_all_v in which a rank receives what it wants and does
/// not hold; nothing where every rank holds what it wants.
template <class Target, class T, class P, class Ctx, class G>
[[nodiscard]] DistTensor<T, Target, Ctx> redistribute(const DistTensor<T, P, Ctx>& x, const GridHandle<G, Ctx>& grid,
                                                      Units units) {
  static_assert(P::layout.partial.empty(), "redistribute(): the tensor is a pending sum; all_reduce it first");
  static_assert(Target::layout.partial.empty(), "redistribute(): a matrix cannot be spread into a pending sum");
  if (&grid.context() != &x.context()) {
    throw GridError("GridError: redistribute() to a grid of another context; both grids must arrange the same ranks");
  }
  DistTensor<T, Target, Ctx> out(grid_as<typename Target::grid_type>(grid), x.shape(), units);
  const Exchange exchange(x.shape(), detail::placement_of<P>(x.grid().ranks(), x.units()),
                          detail::placement_of<Target>(out.grid().ranks(), units), x.context().rank());
  detail::run_exchange<T>(x.context(), exchange, x.local(), out.local());
  return out;
}

template <class Target, class T, class P, class Ctx, class G>
[[nodiscard]] DistTensor<T, Target, Ctx> redistribute(const DistTensor<T, P, Ctx>& x, const GridHandle<G, Ctx>& grid) {
  return redistribute<Target>(x, grid, x.units());
}

/// On x's own grid.
template <class Target, class T, class P, class Ctx>
[[nodiscard]] DistTensor<T, Target, Ctx> redistribute(const DistTensor<T, P, Ctx>& x) {
  static_assert(grids_meet<typename Target::grid_type, typename P::grid_type>,
                "redistribute(): the target lies on a grid with other axes; pass that grid as the second argument");
  return redistribute<Target>(x, x.grid(), x.units());
}

}  // namespace partita
