// SPDX-License-Identifier: Apache-2.0
// What CheckedComm throws, on all ranks alike, when they do not make the same calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/error.hpp"

namespace partita {

/// The calls of the ranks at one step of a communicator, or the two sides of a message, do not go together. Nothing was
/// written by any of them.
struct CollectiveMismatch : Error {
  CollectiveMismatch(const std::string& what, std::uint64_t number, std::vector<std::string> of_ranks,
                     std::string latest = {})
      : Error(what), step(number), calls(std::move(of_ranks)), events(std::move(latest)) {}

  std::uint64_t step;              // the number of the call on its communicator, from 0; of a message, of the next call
  std::vector<std::string> calls;  // of each rank of the communicator, in words; of a message, empty for all others
  std::string events;              // after a deadline: the latest events of each rank that can be known, in lines
};

/// Ranks disagree about a shape, or about a list of blocks.
struct ShapeMismatch : CollectiveMismatch {
  using CollectiveMismatch::CollectiveMismatch;
};

/// Ranks disagree about the type of the elements.
struct TypeMismatch : CollectiveMismatch {
  using CollectiveMismatch::CollectiveMismatch;
};

/// A rank did not make its call, or not answer a message, before the deadline of the comparison.
struct MissingCall : CollectiveMismatch {
  using CollectiveMismatch::CollectiveMismatch;
};

/// A communicator was called from a thread other than its own. The stray call throws this at once; the next call of
/// the communicator's own thread throws it on all ranks.
struct ForeignThread : CollectiveMismatch {
  using CollectiveMismatch::CollectiveMismatch;
};

/// All ranks sum a buffer in place that still holds the sum that they left there.
struct RepeatedSum : CollectiveMismatch {
  using CollectiveMismatch::CollectiveMismatch;
};

}  // namespace partita
