// SPDX-License-Identifier: Apache-2.0
// Block-cyclic arrays against the definition: any block sizes, source processes and process grids, in and out.

#include <doctest/doctest.h>

#include <array>

#include "support/cyclic_case.hpp"
#include "support/grids.hpp"

using namespace partita;
using namespace partita::test;

TEST_CASE("block-cyclic arrays come in and go out under any block size and source process") {
  launch_threads(6, [](ThreadComm& comm) {
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
    check_block_cyclic(context);
  });
}

TEST_CASE("a ScaLAPACK descriptor gives the array") {
  const std::array<int, 9> descriptor{1, 0, 10, 8, 4, 2, 1, 0, 10};
  const BlockCyclic a = BlockCyclic::from_descriptor(descriptor, 2, 2);
  CHECK(a.shape == Shape{10, 8});
  CHECK(a.mb == 4);
  CHECK(a.nb == 2);
  CHECK(a.row_source == 1);
  // NUMROC(10, 4, 0, 1, 2) = 4 and NUMROC(8, 2, 0, 0, 2) = 4
  CHECK(a.local_shape(0) == Shape{4, 4});
  CHECK(a.local_shape(2) == Shape{6, 4});
  const std::array<int, 9> banded{501, 0, 10, 8, 4, 2, 0, 0, 10};
  CHECK_THROWS_AS((void)BlockCyclic::from_descriptor(banded, 2, 2), ArgumentError);
}

TEST_CASE("an array that is unsound on one rank is refused on all, and the communicator stays usable") {
  launch_threads(4, [](ThreadComm& comm) {
    CountedContext context(CountingComm<ThreadComm>(std::move(comm)));
    check_unsound_arrays(context);
  });
}
