// SPDX-License-Identifier: Apache-2.0
// What hosts tell each other by NCCL: through device memory, and the host waits.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "partita/comm/nccl/group.hpp"

namespace partita::detail {

/// The words of all ranks, in rank order. Pre: `all` has room for that many from each rank.
inline void nccl_gather_words(NcclGroup& g, std::span<const std::int64_t> mine, std::span<std::int64_t> all) {
  NcclWorld& world = *g.world;
  world.guard([&] {
    const std::size_t one = mine.size_bytes();
    const std::size_t every = one * static_cast<std::size_t>(g.size);
    std::byte* const host = world.host_words(every);
    std::byte* const device = world.staging(every);
    std::byte* const own = device + one * static_cast<std::size_t>(g.rank);
    std::memcpy(host, mine.data(), one);
    cuda_check(cudaMemcpyAsync(own, host, one, cudaMemcpyHostToDevice, world.stream()), "cudaMemcpyAsync");
    world.check(ncclAllGather(own, device, mine.size(), ncclInt64, g.comm, world.stream()), "ncclAllGather");
    world.settle(g.comm, "ncclAllGather");
    cuda_check(cudaMemcpyAsync(host, device, every, cudaMemcpyDeviceToHost, world.stream()), "cudaMemcpyAsync");
    world.sync();
    std::memcpy(all.data(), host, every);
  });
}

/// The largest value.
[[nodiscard]] inline std::int64_t nccl_agree(NcclGroup& g, std::int64_t value) {
  NcclWorld& world = *g.world;
  std::int64_t largest = value;
  world.guard([&] {
    std::byte* const host = world.host_words(sizeof value);
    std::byte* const device = world.staging(sizeof value);
    std::memcpy(host, &value, sizeof value);
    cuda_check(cudaMemcpyAsync(device, host, sizeof value, cudaMemcpyHostToDevice, world.stream()), "cudaMemcpyAsync");
    world.check(ncclAllReduce(device, device, 1, ncclInt64, ncclMax, g.comm, world.stream()), "ncclAllReduce");
    world.settle(g.comm, "ncclAllReduce");
    cuda_check(cudaMemcpyAsync(host, device, sizeof value, cudaMemcpyDeviceToHost, world.stream()), "cudaMemcpyAsync");
    world.sync();
    std::memcpy(&largest, host, sizeof largest);
  });
  return largest;
}

}  // namespace partita::detail
