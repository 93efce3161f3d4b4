// SPDX-License-Identifier: Apache-2.0
// The seam between layers and what computes on one rank: a body that is called for each index of a range.
#pragma once

#include "partita/backend/body.hpp"

namespace partita {

/// Calls body(i) for i in [0, count), or body(i, j) for the columns j too, in any order or at once; backend/body.hpp
/// says what a body has. A backend whose memory is elsewhere runs it there: for_each_index() is its member then.
template <class BackendT, class Body>
void for_each_index(BackendT& backend, index_t count, const Body& body) {
  if constexpr (requires { backend.for_each_index(count, body); }) {
    backend.for_each_index(count, body);
  } else {
    run_body(count, body);
  }
}

}  // namespace partita
