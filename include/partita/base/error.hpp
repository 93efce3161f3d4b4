// SPDX-License-Identifier: Apache-2.0
// The errors that Partita throws. Each message says what was asked, what was found and what would work.
#pragma once

#include <stdexcept>
#include <string>

namespace partita {

/// Base of all errors thrown by the library.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Ranks do not fit the grid, or two operands lie on different grids.
struct GridError : Error {
  using Error::Error;
};

/// Global shapes, block shapes or indices that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};

/// The units along a contracted dimension differ, so its blocks would not meet.
struct UnitError : Error {
  using Error::Error;
};

/// An output shares memory with an input.
struct AliasError : Error {
  using Error::Error;
};

/// A product (or a result asked of it) for which the rule of multiplication has no algorithm.
struct RefusedError : Error {
  using Error::Error;
};

/// Sizes whose product does not fit 64 bits, or memory that cannot be had.
struct CapacityError : Error {
  using Error::Error;
};

/// A file that is missing, malformed, or of another type or shape than was asked for.
struct FileError : Error {
  using Error::Error;
};

/// An argument outside its domain that none of the above describes (a root that is no rank, a width of zero).
struct ArgumentError : Error {
  using Error::Error;
};

/// A wait that lasted longer than the communicator's deadline.
struct TimeoutError : Error {
  using Error::Error;
};

/// A collective could not complete because rank `origin` of the launch failed; -1 where nobody knows which.
struct PeerFailed : Error {
  PeerFailed(int failed_rank, const std::string& reason)
      : Error("PeerFailed: " + (failed_rank < 0 ? "a peer" : "rank " + std::to_string(failed_rank)) +
              " failed: " + reason),
        origin(failed_rank) {}

  int origin;
};

}  // namespace partita
