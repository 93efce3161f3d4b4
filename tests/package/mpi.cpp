// SPDX-License-Identifier: Apache-2.0
// A stranger's program with the MPI of the component, run as one process.

#include "partita/comm/mpi.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  return partita::launch_mpi(argc, argv, [](partita::MpiComm& comm) {
    std::printf("%d of %d, largest %lld\n", comm.rank(), comm.size(), static_cast<long long>(comm.agree(7)));
  });
}
