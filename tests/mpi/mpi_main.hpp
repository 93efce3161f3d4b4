// SPDX-License-Identifier: Apache-2.0
// What test cases of MPI ranks share.
#pragma once

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "partita/comm/mpi.hpp"

namespace partita::test {

/// The options of the communicator that test cases are given.
inline MpiOptions test_options() {
  MpiOptions options;
  options.deadline = std::chrono::seconds(60);
  options.arena = std::size_t{32} << 20;
  return options;
}

/// All ranks.
MpiComm& mpi_world();

}  // namespace partita::test
