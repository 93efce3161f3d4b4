// SPDX-License-Identifier: Apache-2.0
// A tensor from blocks that ranks already hold, when nobody has told the global shape.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "partita/tensor/create.hpp"

namespace partita {

/// A tensor over this rank's `block`, memory that the user keeps. The global shape is the sum of the blocks' extents
/// along the axes that cut; it is not this rank's extent times the ranks, since blocks may be uneven.
/// Errors, the same on all ranks and before anything is built: ShapeError that names each rank whose block is not the
/// one that partition and units give it; those of DistTensor.
/// Communicates: one all_gather of the blocks' extents over the grid (of hosts, where blocks lie on a device), and the
/// agreements of construction.
template <class P, class T, class G, class Ctx>
[[nodiscard]] DistTensor<T, P, Ctx> from_blocks(const GridHandle<G, Ctx>& grid, View<T> block, Units units = {}) {
  auto handle = grid_as<typename P::grid_type>(grid);
  ProcessGrid<Ctx>& ranks = handle.ranks();
  auto& comm = handle.context().comm();
  const int size = comm.size();
  std::vector<index_t> extents(2 * static_cast<std::size_t>(size));
  const index_t mine[2] = {block.rows, block.cols};
  std::vector<Block> places;
  for (int rank = 0; rank < size; ++rank) places.push_back({{0, 1}, {2 * rank, 2 * rank + 2}});
  if constexpr (OnDevice<typename Ctx::comm_type>) {
    comm.gather_words(mine, extents);
  } else {
    comm.all_gather(row_view<const index_t>(mine, 2), row_view(extents.data(), 2 * index_t{size}),
                    std::span<const Block>(places))
        .wait();
  }
  const auto held = [&](int rank) {
    return Shape{extents[2 * static_cast<std::size_t>(rank)], extents[2 * static_cast<std::size_t>(rank) + 1]};
  };

  // Along each list the blocks of the ranks that are first along all other axes add up to the whole.
  Shape shape;
  for (int rank = 0; rank < size; ++rank) {
    const AxisValues at = coordinates_along(ranks.axes(), ranks.extents(), rank);
    const auto first_beside = [&](const AxisList& list) {
      return index_along(ranks.axes().without(list), ranks.extents(), at) == 0;
    };
    if (first_beside(P::layout.rows)) shape.rows += held(rank).rows;
    if (first_beside(P::layout.cols)) shape.cols += held(rank).cols;
  }
  std::string objection;
  for (int rank = 0; rank < size && units.rows >= 1 && units.cols >= 1; ++rank) {
    const AxisValues at = coordinates_along(ranks.axes(), ranks.extents(), rank);
    const Shape expected = block_of(P::layout, shape, units, ranks.extents(), at).shape();
    if (held(rank) == expected) continue;
    objection += (objection.empty() ? "" : ", ") + ("rank " + std::to_string(rank)) + " holds " +
                 to_string(held(rank)) + " where the partition gives it " + to_string(expected);
  }
  if (!objection.empty()) {
    throw ShapeError("ShapeError: blocks that add up to " + to_string(shape) +
                     " are not cut as the partition cuts it: " + objection);
  }
  return DistTensor<T, P, Ctx>(std::move(handle), shape, block, units);
}

}  // namespace partita
