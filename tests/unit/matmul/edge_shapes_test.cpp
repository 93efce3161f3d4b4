// SPDX-License-Identifier: Apache-2.0
// Every combination of the sizes at which blocks become empty or uneven, for every pair of the table, exactly.
#include <doctest/doctest.h>

#include "support/edge_cases.hpp"
#include "support/grids.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

TEST_CASE("edge shapes: all of {0, 1, 2, q-1, q, q+1, 2q-1, 2q+1, 31} cubed, stored NN, NT, TN and TT in turn") {
  const std::vector<std::pair<std::vector<int>, int>> grids = {
      {{2, 2}, 2}, {{3, 3}, 3}, {{2, 3}, 3}, {{2, 2, 2}, 2}, {{2, 3, 3}, 3}, {{3, 2, 2}, 2}, {{2}, 2}, {{5}, 5}};
  Failures failures;
  index_t products = 0;
  for (const auto& [extents, q] : grids) {
    std::vector<ProductCase> cases = edge_cases(extents, q);
    if (sanitized) cases = some_of(cases, 13);
    products += static_cast<index_t>(cases.size());
    run_cases<CountedContext>(extents, cases, [](std::size_t i) { return i % 16 == 15 ? 3 : 0; }, failures);
  }
  INFO(failures.text());
  CHECK(failures.count() == 0);
  CHECK(products > (sanitized ? 500 : 10000));
}

}  // namespace
}  // namespace partita::test
