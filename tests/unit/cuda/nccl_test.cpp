// SPDX-License-Identifier: Apache-2.0
// NcclComm obeys the laws of a communicator on as many devices as there are.
#include "partita/comm/nccl.hpp"

#include <doctest/doctest.h>

#include "laws/communicator_laws.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "unit/cuda/mirrored_comm.hpp"
#include "unit/cuda/support.hpp"

namespace partita {
namespace {

TEST_CASE("NcclComm obeys the communicator laws on one device, and on all") {
  const test::CudaMachine machine;
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  for (const int ranks : {1, devices}) {
    CAPTURE(ranks);
    launch_devices(ranks, [](NcclComm& comm) {
      MirroredComm mirrored(comm);
      laws::check_communicator(mirrored);
    });
  }
}

}  // namespace
}  // namespace partita
