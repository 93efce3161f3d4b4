// SPDX-License-Identifier: Apache-2.0
// The exact sweep: integer data, so that every result must equal the serial one bit for bit; schedule, call arguments
// and touched memory must count the same on every rank; under panels read in place and panels copied.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "support/draw.hpp"
#include "support/grids.hpp"
#include "support/sweep_share.hpp"

using namespace partita;
using namespace partita::test;

namespace {

struct Coverage {
  index_t total = 0, four_ranks_uneven = 0, three_panels = 0, sliced_asked = 0;
  std::map<std::string, index_t> cells;  // table row, transposes, grid
  std::map<index_t, index_t> widths;
  std::map<int, index_t> scalars, ranks;
  std::map<Algorithm, index_t> algorithms;
};

bool uneven(const ProductCase& c, const std::vector<int>& extents) {
  AxisValues values{};
  for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
  const auto cut = [&](index_t n, const AxisList& axes) {
    const int parts = group_size(axes, values);
    return parts > 1 && n % parts != 0;
  };
  return cut(c.m, c.a.rows) || cut(c.k, c.a.cols) || cut(c.k, c.b.rows) || cut(c.n, c.b.cols);
}

void run(const std::vector<int>& extents, const std::vector<ProductCase>& cases, int first_scalar, Coverage& coverage,
         Failures& failures) {
  const auto scalar = [first_scalar](std::size_t i) { return (first_scalar + static_cast<int>(i)) % 6; };
  // The first half with panels read in place, the second with panels copied.
  const auto half_way = cases.begin() + static_cast<std::ptrdiff_t>(cases.size() / 2);
  const std::vector<ProductCase> in_place(cases.begin(), half_way);
  const std::vector<ProductCase> copied(half_way, cases.end());
  std::vector<index_t> panels = run_cases<CountedContext>(extents, in_place, scalar, failures);
  const auto shifted = [&](std::size_t i) { return scalar(i + in_place.size()); };
  const std::vector<index_t> more = run_cases<CopyingContext>(extents, copied, shifted, failures);
  panels.insert(panels.end(), more.begin(), more.end());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ++coverage.total;
    ++coverage.scalars[scalar(i)];
    ++coverage.ranks[rank_count(extents)];
    ++coverage.widths[cases[i].options.panel_width.value_or(0)];
    ++coverage.algorithms[cases[i].plan.plan.algorithm];
    if (cases[i].options.panels == PanelMove::all_gather) ++coverage.sliced_asked;
    if (panels[i] >= 3) ++coverage.three_panels;
    if (rank_count(extents) >= 4 && uneven(cases[i], extents)) ++coverage.four_ranks_uneven;
  }
}

void print(const Coverage& c) {
  std::printf(
      "exact sweep: %lld configurations, %lld on 4 or more ranks with uneven blocks, %lld with 3 or more panels, "
      "%lld asked for slices by all-gather\n",
      static_cast<long long>(c.total), static_cast<long long>(c.four_ranks_uneven),
      static_cast<long long>(c.three_panels), static_cast<long long>(c.sliced_asked));
  const char* scalars[] = {"float", "double", "complex<float>", "complex<double>", "half", "bfloat16"};
  for (const auto& [s, n] : c.scalars) std::printf("  %-16s %6lld\n", scalars[s], static_cast<long long>(n));
  for (const auto& [w, n] : c.widths)
    std::printf("  width %-10s %6lld\n", w == 0 ? "left open" : std::to_string(w).c_str(), static_cast<long long>(n));
  for (const auto& [r, n] : c.ranks) std::printf("  %2d ranks         %6lld\n", r, static_cast<long long>(n));
  const char* algorithms[] = {"local", "stationary C", "stationary A", "stationary B"};
  for (const auto& [a, n] : c.algorithms) {
    std::printf("  %-16s %6lld\n", algorithms[static_cast<int>(a)], static_cast<long long>(n));
  }
  index_t least = c.cells.empty() ? 0 : c.cells.begin()->second;
  for (const auto& [cell, n] : c.cells) least = std::min(least, n);
  std::printf("  %zu cells of table row x transposes x grid, at least %lld configurations in each:\n", c.cells.size(),
              static_cast<long long>(least));
  for (const auto& [cell, n] : c.cells) std::printf("    %-70s %4lld\n", cell.c_str(), static_cast<long long>(n));
}

}  // namespace

TEST_CASE("exact sweep: every table row, all transposes, and random pairs of all partitions over three axes") {
  const double share = sweep_share();
  const auto per_cell = std::max<index_t>(1, static_cast<index_t>(52 * share));
  const std::vector<std::vector<int>> grids[] = {
      {{1}, {2}, {4}, {5}, {8}},
      {{1, 1}, {2, 2}, {3, 3}, {2, 3}, {4, 2}},
      {{1, 2, 2}, {2, 2, 2}, {2, 1, 1}, {3, 2, 2}, {2, 3, 3}},
  };
  Coverage coverage;
  Failures failures;
  Draw draw(20260101);
  const char* stored[] = {"NN", "NT", "TN", "TT"};
  int first_scalar = 0;
  for (int axes = 1; axes <= 3; ++axes) {
    for (const auto& extents : grids[axes - 1]) {
      std::vector<ProductCase> cases;
      for (const TableRow& row : table_rows) {
        if (row.axes != axes) continue;
        for (int transposes = 0; transposes < 4; ++transposes) {
          AxisValues values{};
          for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
          coverage.cells[std::string(row.name) + " " + stored[transposes] + " " +
                         detail::grid_text(axis_names(axes), values)] += per_cell;
          for (index_t i = 0; i < per_cell; ++i) {
            const int scalar = (first_scalar + static_cast<int>(cases.size())) % 6;
            cases.push_back(draw_case(row.a, row.b, transposes, scalar < 4, draw));
          }
        }
      }
      // Interleave, so that each half of the run holds every cell.
      std::stable_partition(cases.begin(), cases.end(), [n = 0](const ProductCase&) mutable { return n++ % 2 == 0; });
      for (ProductCase& c : cases) {  // the scalar of a case follows its place
        if (!c.plan.result.partial.empty()) c.plan = plan_product(c.a, c.b);
      }
      run(extents, cases, first_scalar, coverage, failures);
      first_scalar += 1;
    }
  }

  // Pairs of all partitions over three axes.
  const auto layouts = all_layouts();
  const std::vector<std::vector<int>> spatial = {{2, 2, 2}, {1, 2, 3}, {2, 1, 3}, {3, 2, 1},
                                                 {2, 3, 2}, {3, 1, 2}, {2, 2, 3}};
  for (std::size_t g = 0; g < spatial.size(); ++g) {
    std::vector<ProductCase> cases;
    const auto wanted = static_cast<std::size_t>(1750 * share) + 1;
    while (cases.size() < wanted) {
      const Layout& a = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      const Layout& b = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      if (!plan_of(a, b).valid()) continue;
      const int scalar = (first_scalar + static_cast<int>(cases.size())) % 6;
      cases.push_back(draw_case(a, b, static_cast<int>(draw.between(0, 3)), scalar < 4, draw));
    }
    run(spatial[g], cases, first_scalar, coverage, failures);
    ++first_scalar;
  }

  print(coverage);
  INFO(failures.text());
  CHECK(failures.count() == 0);
  CHECK(coverage.four_ranks_uneven * 2 >= coverage.total);
  CHECK(coverage.three_panels * 2 >= coverage.total);
  CHECK(coverage.scalars.size() == 6);
  if (share >= 1) CHECK(coverage.total >= 20000);
}
