// SPDX-License-Identifier: Apache-2.0
// One message of more than 2³¹ bytes, and one of more than 2³¹ elements: by hand, since it needs 12 GB and a minute.
//   mpicxx.openmpi -std=c++20 -O2 -Iinclude tests/long/large_message_test.cpp -o large && mpirun.openmpi -n 2 ./large

#include <cstdint>
#include <cstdio>
#include <vector>

#include "partita/comm/mpi.hpp"

namespace {

/// Element i of the message, so that a shifted or repeated part is seen.
std::uint8_t value(partita::index_t i) { return static_cast<std::uint8_t>((i * 2654435761) >> 13); }

/// Broadcasts n elements from rank 0 and counts the wrong ones on each rank.
bool broadcast(partita::MpiComm& comm, partita::index_t n) {
  std::vector<std::uint8_t> data(static_cast<std::size_t>(n));
  if (comm.rank() == 0) {
    for (partita::index_t i = 0; i < n; ++i) data[static_cast<std::size_t>(i)] = value(i);
  }
  comm.broadcast(partita::row_view(data.data(), n), 0).wait();
  partita::index_t wrong = 0;
  for (partita::index_t i = 0; i < n; ++i) wrong += data[static_cast<std::size_t>(i)] != value(i) ? 1 : 0;
  const partita::index_t worst = comm.agree(wrong);
  if (comm.rank() == 0) {
    std::printf("broadcast of %lld bytes to %d ranks: %lld wrong elements\n", static_cast<long long>(n), comm.size(),
                static_cast<long long>(worst));
  }
  return worst == 0;
}

}  // namespace

int main(int argc, char** argv) {
  return partita::launch_mpi(argc, argv, [](partita::MpiComm& comm) {
    const partita::index_t limit = partita::index_t{1} << 31;
    if (!broadcast(comm, limit + 12345) || !broadcast(comm, 2 * limit + 1)) {
      throw partita::Error("a large message arrived wrong");
    }
  });
}
