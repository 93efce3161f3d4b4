// SPDX-License-Identifier: Apache-2.0
// How ranks under MPI come to an NcclComm. The stand-ins know the devices of one process alone, so no communicator of
// several ranks is made here: their agreement about devices, and communicators of one rank each.
#include <doctest/doctest.h>

#include <string>

#include "cuda_emulation/control.hpp"
#include "mpi_main.hpp"
#include "partita/comm/nccl_mpi.hpp"

using namespace partita;
using namespace partita::test;

namespace {

void have_devices(int devices) {
  cuda_emulation::Options options;
  options.devices = devices;
  cuda_emulation::reset(options);
}

TEST_CASE("A rank of MPI gets a communicator on the device of its place") {
  MpiComm& world = mpi_world();
  have_devices(8);
  CHECK(detail::rank_on_node(world) == world.rank());  // one node
  auto alone = world.split(world.rank(), 0);
  {
    NcclComm comm = nccl_from_mpi(*alone);
    CHECK(comm.size() == 1);
    CHECK(comm.agree(7) == 7);
  }
  CHECK(cuda_emulation::live().total() == 0);
}

TEST_CASE("A failure of the one communicator is the other's") {
  MpiComm& world = mpi_world();
  have_devices(8);
  auto alone = world.split(world.rank(), 0);
  const MpiComm own(alone->native(), test_options());  // a world of its own
  MpiComm mpi(own.world());
  NcclComm comm = nccl_from_mpi(mpi);
  comm.abort("enough");
  CHECK_THROWS_WITH_AS(mpi.barrier(), "PeerFailed: rank 0 failed: enough", PeerFailed);
  CHECK_THROWS_AS(comm.barrier(), PeerFailed);
}

TEST_CASE("Ranks agree where one has no device, or a node has too few") {
  MpiComm& world = mpi_world();
  const int last = world.size() - 1;
  have_devices(world.rank() == last ? 0 : 8);
  CHECK_THROWS_AS(static_cast<void>(nccl_from_mpi(world)), NoDeviceError);
  if (last == 0) return;
  have_devices(last);
  const std::string place = std::to_string(last);
  const std::string text = "ArgumentError: nccl_from_mpi: rank " + place + " has place " + place +
                           " on its node and sees " + place + " devices, NCCL needs one for each rank; start fewer " +
                           "ranks on a node, or look at CUDA_VISIBLE_DEVICES";
  CHECK_THROWS_WITH_AS(static_cast<void>(nccl_from_mpi(world)), text.c_str(), ArgumentError);
  world.barrier();
}

}  // namespace
