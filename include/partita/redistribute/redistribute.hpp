// SPDX-License-Identifier: Apache-2.0
// Moves a tensor to another partition, on the same grid or another one of the same ranks.
#pragma once

#include <span>
#include <vector>

#include "partita/redistribute/exchange.hpp"
#include "partita/tensor/create.hpp"

namespace partita {

namespace detail {

/// Runs an exchange on one rank: `in` is its block before, `out` its block after. Collective over `comm`.
template <class T, class Comm>
void run_exchange(Comm& comm, const Exchange& exchange, View<const T> in, View<T> out) {
  const auto relative = [](Block piece, Block origin) {
    return Block{piece.rows.relative_to(origin.rows.begin), piece.cols.relative_to(origin.cols.begin)};
  };
  const auto sent = [&](int receiver) {
    const Block piece = exchange.piece(exchange.self(), receiver);
    return piece.size() == 0 ? View<const T>{} : in.sub(relative(piece, exchange.held()));
  };
  const auto received = [&](int sender) {
    const Block piece = exchange.piece(sender, exchange.self());
    return piece.size() == 0 ? View<T>{} : out.sub(relative(piece, exchange.wanted()));
  };
  if (exchange.local()) {
    const View<const T> from = sent(exchange.self());
    const View<T> to = received(exchange.self());
    for (index_t i = 0; i < to.rows; ++i) {
      for (index_t j = 0; j < to.cols; ++j) to(i, j) = from(i, j);
    }
    return;
  }
  std::vector<View<const T>> sends;
  std::vector<View<T>> receives;
  for (int rank = 0; rank < exchange.ranks(); ++rank) {
    sends.push_back(sent(rank));
    receives.push_back(received(rank));
  }
  comm.all_to_all_v(std::span<const View<const T>>(sends), std::span<const View<T>>(receives)).wait();
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
  detail::run_exchange<T>(x.context().comm(), exchange, x.local(), out.local());
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
