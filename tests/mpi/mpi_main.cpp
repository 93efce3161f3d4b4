// SPDX-License-Identifier: Apache-2.0
// The main function of tests whose ranks are MPI processes: every rank runs the same test cases. A failure on any rank
// fails the run; what a rank prints is shown if it failed, and rank 0's summary always.
#define DOCTEST_CONFIG_IMPLEMENT
#include "mpi_main.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <sstream>

namespace {
partita::MpiComm* world = nullptr;
}  // namespace

namespace partita::test {
MpiComm& mpi_world() { return *world; }
}  // namespace partita::test

int main(int argc, char** argv) {
  return partita::launch_mpi(argc, argv, partita::test::test_options(), [&](partita::MpiComm& comm) {
    world = &comm;
    std::ostringstream text;
    doctest::Context context;
    context.applyCommandLine(argc, argv);
    context.setOption("no-colors", true);
    context.setCout(&text);
    const bool failed = context.run() != 0;
    if (failed || comm.rank() == 0) {
      std::printf("rank %d of %d:\n%s", comm.rank(), comm.size(), text.str().c_str());
      std::fflush(stdout);
    }
    // A rank whose assertion threw has left its peers in a collective; they are freed, and the job fails.
    if (failed) throw std::runtime_error("test cases failed");
    static_cast<void>(comm.agree(0));
  });
}
