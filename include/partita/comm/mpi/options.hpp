// SPDX-License-Identifier: Apache-2.0
// What can be set of a world of MPI ranks, and what it tells about itself.
#pragma once

#include <chrono>
#include <cstddef>

#include "partita/base/config.hpp"

namespace partita {

struct MpiOptions {
  /// A wait that lasts longer throws TimeoutError in its rank, and PeerFailed in the others.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  /// The most elements in one MPI message; longer ones are cut. MPI counts in int, so 2^30 bytes are a limit too.
  index_t chunk = index_t{1} << 30;
  /// Bytes of each rank in the window that its node shares, at least that many or 0: none, and panels are copied.
  /// Pages are taken when they are first touched.
  std::size_t arena = std::size_t{256} << 20;
  /// Cuts each node into parts of so many ranks, between which no memory is shared; 0: nodes as MPI finds them.
  int ranks_per_node = 0;
};

/// What a world has done on this rank.
struct MpiStatistics {
  index_t sends = 0;                 // MPI messages, the chunks of one message counted singly
  index_t receives = 0;              // likewise
  index_t broadcasts = 0;            // likewise
  index_t panels_in_place = 0;       // of others, read in the window
  index_t panels_copied = 0;         // of others, received in the own buffer
  index_t loans_staged = 0;          // own ones that lie outside the window and were copied there
  index_t meetings_in_place = 0;     // sums and gathers straight from and to the blocks of a node's ranks
  index_t meetings_by_messages = 0;  // those for which a rank's window had no room
};

}  // namespace partita
