// SPDX-License-Identifier: Apache-2.0
// The lists of bodies: each is one that a kernel can be made of. cmake/check_bodies.cmake looks for bodies that are
// missing in them, by the names of functions in this program.
#include "partita/nn/kernel/bodies.hpp"

#include <doctest/doctest.h>

namespace partita {

/// The number of views that the body names.
template <LocalBody Body>
std::size_t listed_body() {
  return map_views(Body{}, [](const auto& view) { return view.ld; }).size();
}

namespace {

template <class... Body>
void check(BodyList<Body...>) {
  CHECK(((listed_body<Body>() > 0) && ...));
}

TEST_CASE_TEMPLATE("Every listed body names what it touches", T, float, double, half, bfloat16) {
  check(kernel::BodiesOfScalar<T>());
  check(kernel::BodiesOfSum<accumulate_t<T>>());
  check(kernel::OtherBodies());
}

}  // namespace
}  // namespace partita
