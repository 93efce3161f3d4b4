// SPDX-License-Identifier: Apache-2.0
// One process for each device, under MPI. An opt-in include: it needs what comm/nccl.hpp and comm/mpi.hpp need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "partita/comm/agree.hpp"
#include "partita/comm/mpi.hpp"
#include "partita/comm/nccl.hpp"

namespace partita {

namespace detail {

/// How many ranks before this one are on its node. Collective.
[[nodiscard]] inline int rank_on_node(MpiComm& mpi) {
  const std::int64_t own = mpi.world()->node_of(mpi.world()->rank());
  std::vector<std::int64_t> nodes(static_cast<std::size_t>(mpi.size()));
  std::vector<Block> blocks;
  for (int r = 0; r < mpi.size(); ++r) blocks.push_back({{0, 1}, {r, r + 1}});
  mpi.all_gather(row_view(&own, 1), row_view(nodes.data(), mpi.size()), std::span<const Block>(blocks)).wait();
  int before = 0;
  for (int r = 0; r < mpi.rank(); ++r) before += nodes[static_cast<std::size_t>(r)] == own ? 1 : 0;
  return before;
}

}  // namespace detail

/// The ranks of `mpi`, each on the device of its place among those of its node, which becomes the current one.
/// Collective; the unique id travels by MPI, as do failures: a rank of either communicator that fails frees the other's
/// peers, as long as the world of `mpi` is there. The NcclComm should end before MPI does. Throws on all ranks
/// NoDeviceError where one sees no device, ArgumentError where a node has more ranks than a rank of it sees devices;
/// and what NcclComm throws.
[[nodiscard]] inline NcclComm nccl_from_mpi(MpiComm& mpi, NcclOptions options = {}) {
  const int place = detail::rank_on_node(mpi);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    (void)cudaGetLastError();
    devices = 0;
  }
  if (mpi.agree(devices == 0 ? mpi.rank() : -1) >= 0) {
    throw NoDeviceError(cudaErrorNoDevice, "cudaGetDeviceCount: a rank of the MPI communicator sees no device");
  }
  std::string objection;
  if (place >= devices) {
    objection = "ArgumentError: nccl_from_mpi: rank " + std::to_string(mpi.rank()) + " has place " +
                std::to_string(place) + " on its node and sees " + std::to_string(devices) +
                " devices, NCCL needs one for each rank; start fewer ranks on a node, or look at CUDA_VISIBLE_DEVICES";
  }
  detail::agree_or_throw<ArgumentError>(mpi, objection);
  use_cuda_device(place);
  ncclUniqueId id{};
  if (mpi.rank() == 0) id = nccl_unique_id();
  mpi.broadcast(row_view(reinterpret_cast<std::byte*>(id.internal), sizeof id.internal), 0).wait();

  // The world is not kept alive: its end is collective, and the user's to time.
  const std::weak_ptr<detail::MpiWorld> world = mpi.world();
  options.listen = [world, first = std::move(options.listen)] {
    if (first) first();
    if (const auto alive = world.lock()) {
      alive->listen();
      alive->check_alive();
    }
  };
  options.tell = [world, first = std::move(options.tell)](const std::string& reason) {
    if (first) first(reason);
    if (const auto alive = world.lock()) alive->fail(reason);
  };
  return NcclComm(id, mpi.size(), mpi.rank(), options);
}

}  // namespace partita
