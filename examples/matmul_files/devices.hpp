// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads with a GPU each, in a build with MATMUL_FILES_NCCL.
#pragma once

#include <utility>

#include "partita/backend/cuda.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "product.hpp"

namespace matmul_files {

using DeviceContext = Context<CudaBackend, CountingComm<NcclComm>>;
using DeviceRank = Rank<RankContext<ThreadComm>, DeviceContext>;

MATMUL_FILES_PRODUCTS(extern, DeviceRank);

/// Runs body(rank) on ranks that are threads with a device each. Throws the first rank's error; NoDeviceError without a
/// device, ArgumentError where there are fewer devices than ranks.
template <class Body>
void on_devices(int ranks, const Body& body) {
  LaunchOptions launch;
  launch.deadline = std::chrono::hours(24);  // a rank may wait long for another one's product
  launch_devices(ranks, launch, [&](NcclComm comm, ThreadComm& threads) {
    std::optional<ThreadComm> own = threads.subset(threads.size());
    RankContext<ThreadComm> host(CountingComm(std::move(*own)));
    DeviceContext compute(CountingComm(std::move(comm)));
    body(DeviceRank{host, compute});
  });
}

}  // namespace matmul_files
