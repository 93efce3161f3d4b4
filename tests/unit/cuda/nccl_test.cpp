// SPDX-License-Identifier: Apache-2.0
// NcclComm on the stand-ins: the laws, and users' cases of collectives that went wrong elsewhere.
#include "partita/comm/nccl.hpp"

#include <doctest/doctest.h>

#include "laws/communicator_laws.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "unit/cuda/mirrored_comm.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;

TEST_CASE("NcclComm obeys the communicator laws, without a race") {
  for (const Progress progress : cuda_emulation::all_progress) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      CAPTURE(ranks);
      const Fresh fresh(cuda_emulation::with(progress));
      launch_devices(ranks, [](NcclComm& comm) {
        MirroredComm mirrored(comm);
        laws::check_communicator(mirrored);
      });
    }
  }
}

}  // namespace
}  // namespace partita
