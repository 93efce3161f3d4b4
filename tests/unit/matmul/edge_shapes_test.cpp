// SPDX-License-Identifier: Apache-2.0
// Every combination of the sizes at which blocks become empty or uneven, for every pair of the table, exactly.
#include <doctest/doctest.h>

#include <set>

#include "support/grids.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

/// The sizes around multiples of the extent q.
std::vector<index_t> edge_sizes(int q) {
  const std::set<index_t> sizes{0, 1, 2, q - 1, q, q + 1, 2 * q - 1, 2 * q + 1, 31};
  return {sizes.begin(), sizes.end()};
}

TEST_CASE("edge shapes: all of {0, 1, 2, q-1, q, q+1, 2q-1, 2q+1, 31} cubed, stored NN, NT, TN and TT in turn") {
  const std::vector<std::pair<std::vector<int>, int>> grids = {
      {{2, 2}, 2}, {{3, 3}, 3}, {{2, 3}, 3}, {{2, 2, 2}, 2}, {{2, 3, 3}, 3}, {{3, 2, 2}, 2}, {{2}, 2}, {{5}, 5}};
  Failures failures;
  index_t products = 0;
  for (const auto& [extents, q] : grids) {
    std::vector<ProductCase> cases;
    for (const TableRow& row : table_rows) {
      if (row.axes != static_cast<int>(extents.size())) continue;
      const auto sizes = edge_sizes(q);
      for (const index_t m : sizes) {
        for (const index_t n : sizes) {
          for (const index_t k : sizes) {
            ProductCase c;
            c.a = row.a;
            c.b = row.b;
            c.plan = plan_product(row.a, row.b);
            c.m = m;
            c.n = n;
            c.k = k;
            const auto turn = static_cast<unsigned>(cases.size());
            c.a_transposed = (turn & 2) != 0;
            c.b_transposed = (turn & 1) != 0;
            c.beta = turn % 3 == 0 ? 1 : 0;
            c.ld_padding = turn % 5 == 0 ? 3 : 0;
            if (turn % 7 == 0) c.options.panel_width = 2;
            if (turn % 4 == 1) c.options.sum_width = 1 + turn % 3;
            c.options.panels = turn % 11 == 0 ? PanelMove::all_gather : PanelMove::broadcast;
            c.seed = turn;
            cases.push_back(c);
          }
        }
      }
    }
    if (sanitized) {  // every thirteenth, coprime to all that is taken in turn
      std::vector<ProductCase> some;
      for (std::size_t i = 0; i < cases.size(); i += 13) some.push_back(cases[i]);
      cases = some;
    }
    products += static_cast<index_t>(cases.size());
    run_cases<CountedContext>(extents, cases, [](std::size_t i) { return i % 16 == 15 ? 3 : 0; }, failures);
  }
  INFO(failures.text());
  CHECK(failures.count() == 0);
  CHECK(products > (sanitized ? 500 : 10000));
}

}  // namespace
}  // namespace partita::test
