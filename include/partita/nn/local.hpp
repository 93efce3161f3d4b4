// SPDX-License-Identifier: Apache-2.0
// The seam between layers and what computes on one rank: a body that is called for each index of a range.
#pragma once

#include <utility>

#include "partita/base/config.hpp"

namespace partita {

/// Calls body(i) for i in [0, count), in any order or at once: bodies for different i write different elements. A body
/// is a named struct of views and numbers with a const call operator and nothing of the standard library's containers,
/// so that a backend whose memory is elsewhere can run the same one there: for_each_index() is its member then.
template <class BackendT, class Body>
void for_each_index(BackendT& backend, index_t count, const Body& body) {
  if constexpr (requires { backend.for_each_index(count, body); }) {
    backend.for_each_index(count, body);
  } else {
    for (index_t i = 0; i < count; ++i) body(i);
  }
}

}  // namespace partita
