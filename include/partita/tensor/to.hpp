// SPDX-License-Identifier: Apache-2.0
// Between memory spaces: a tensor of one context copied into another on the same ranks.
#pragma once

#include <algorithm>
#include <string>

#include "partita/tensor/create.hpp"

namespace partita {

/// The tensor in the context of `grid`, whose ranks stand as those of x do: a host context beside that of a device, or
/// the reverse. A copy from a device returns complete; one to a device is ordered as all its calls are.
/// Errors: GridError where the grids' extents or this rank's coordinates differ; what the new tensor throws.
/// Communicates: one agreement, for the new tensor.
template <class G, class To, class T, class P, class From>
[[nodiscard]] DistTensor<T, P, To> to(const GridHandle<G, To>& grid, const DistTensor<T, P, From>& x) {
  auto handle = grid_as<typename P::grid_type>(grid);
  const auto& there = handle.ranks();
  const auto& here = x.grid().ranks();
  if (there.extents() != here.extents() || there.coordinates() != here.coordinates()) {
    throw GridError("GridError: to(): rank " + std::to_string(x.context().rank()) + " of the tensor's grid is rank " +
                    std::to_string(handle.context().rank()) +
                    " of the other, or the extents differ; contexts on the same ranks in the same order are needed");
  }
  auto copy = DistTensor<T, P, To>::uninitialized(handle, x.shape(), x.units());
  if constexpr (host_memory_v<typename From::backend_type>) {
    copy.context().backend().template copy<T>(x.local(), copy.local());
  } else {
    x.context().sync();  // which notices failed peers, where the copy would wait for them
    x.context().backend().template copy<T>(x.local(), copy.local());
    x.context().sync();
  }
  return copy;
}

}  // namespace partita
