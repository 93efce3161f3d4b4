// SPDX-License-Identifier: Apache-2.0
// The rule of Traffic (comm/concepts.hpp), for communicators that count when a call begins.
#pragma once

#include <cstddef>
#include <span>

#include "partita/comm/arguments.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::detail {

struct TrafficCount {
  Traffic total;

  /// One message of n elements, or none.
  template <class T>
  void message(index_t n) noexcept {
    if (n > 0) total.add(1, n, sizeof(T));
  }
  /// A message for each piece but the own one.
  template <class T, class Piece>
  void others(std::span<Piece> pieces, int rank) noexcept {
    for (std::size_t r = 0; r < pieces.size(); ++r) {
      if (static_cast<int>(r) != rank) message<T>(pieces[r].size());
    }
  }
  /// An all_reduce of n elements: each other rank's chunk is sent as a contribution, and received as a sum.
  template <class T>
  void all_reduce(index_t n, int rank, int size) noexcept {
    for (int r = 0; r < size; ++r) {
      if (r == rank) continue;
      const index_t chunk = balanced_chunk(n, size, r).size();
      message<T>(chunk);
      message<T>(chunk);
    }
  }
};

}  // namespace partita::detail
