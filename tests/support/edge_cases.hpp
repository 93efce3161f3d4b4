// SPDX-License-Identifier: Apache-2.0
// Products at the sizes at which blocks become empty or uneven.
#pragma once

#include <set>
#include <vector>

#include "support/layouts.hpp"
#include "support/product_case.hpp"

namespace partita::test {

/// The sizes around multiples of the extent q.
inline std::vector<index_t> edge_sizes(int q) {
  const std::set<index_t> sizes{0, 1, 2, q - 1, q, q + 1, 2 * q - 1, 2 * q + 1, 31};
  return {sizes.begin(), sizes.end()};
}

/// For each row of the table on these axes all of {0, 1, 2, q-1, q, q+1, 2q-1, 2q+1, 31} cubed, stored NN, NT, TN and
/// TT in turn, with old results, padding, narrow panels and all-gathers among them.
inline std::vector<ProductCase> edge_cases(const std::vector<int>& extents, int q) {
  std::vector<ProductCase> cases;
  const auto sizes = edge_sizes(q);
  for (const TableRow& row : table_rows) {
    if (row.axes != static_cast<int>(extents.size())) continue;
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
  return cases;
}

/// Every `step`-th of them: coprime to all that is taken in turn, so that each choice stays among them.
inline std::vector<ProductCase> some_of(const std::vector<ProductCase>& cases, std::size_t step,
                                        std::size_t first = 0) {
  std::vector<ProductCase> some;
  for (std::size_t i = first; i < cases.size(); i += step) some.push_back(cases[i]);
  return some;
}

}  // namespace partita::test
