// SPDX-License-Identifier: Apache-2.0
// The exact sweep on ranks that share a device: integer data, so that every result must equal the serial one bit for
// bit, and no two accesses of streams may race.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "support/device_case.hpp"
#include "support/draw.hpp"
#include "support/layouts.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::test {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;

/// Runs the cases on a fresh machine. `first_scalar` is that of the first case; the others follow in turn.
void run(Progress progress, const std::vector<int>& extents, const std::vector<ProductCase>& cases, int first_scalar,
         Failures& failures) {
  const Fresh fresh(cuda_emulation::with(progress, 1));
  const auto names = axis_names(static_cast<int>(extents.size()));
  on_device_grid(extents, [&](ProcessGrid<DeviceContext>& grid) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const int scalar = (first_scalar + static_cast<int>(i)) % 6;
      const CaseResult found = run_device_case_of(scalar, grid, cases[i]);
      if (found.failure.empty()) continue;
      failures.add("rank " + std::to_string(grid.context().rank()) + " of " + detail::grid_text(names, grid.extents()) +
                   ", case " + std::to_string(i) + ": " + describe(cases[i], names) + ": " + found.failure);
    }
  });
}

TEST_CASE("exact sweep on one device: every table row, all transposes, random pairs of all partitions") {
  const std::vector<std::vector<int>> grids[] = {
      {{1}, {2}, {3}, {5}, {8}},
      {{1, 1}, {2, 2}, {2, 3}, {4, 2}},
      {{1, 2, 2}, {2, 2, 2}, {2, 1, 1}, {2, 1, 3}},
  };
  Failures failures;
  Draw draw(20260302);
  index_t total = 0;
  int first_scalar = 0;
  const auto next_progress = [n = 0]() mutable { return n++ % 4 == 3 ? Progress::latest : Progress::normal; };
  auto progress = next_progress;
  for (int axes = 1; axes <= 3; ++axes) {
    for (const auto& extents : grids[axes - 1]) {
      std::vector<ProductCase> cases;
      for (const TableRow& row : table_rows) {
        for (int i = 0; row.axes == axes && i < 36; ++i) {
          const int scalar = (first_scalar + static_cast<int>(cases.size())) % 6;
          cases.push_back(draw_case(row.a, row.b, i % 4, scalar < 4, draw));
        }
      }
      run(progress(), extents, cases, first_scalar++, failures);
      total += static_cast<index_t>(cases.size());
    }
  }
  const auto layouts = all_layouts();
  for (const auto& extents : std::vector<std::vector<int>>{{2, 2, 2}, {1, 2, 3}, {2, 1, 3}, {3, 2, 1}, {1, 2, 2}}) {
    std::vector<ProductCase> cases;
    while (cases.size() < 420) {
      const Layout& a = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      const Layout& b = layouts[static_cast<std::size_t>(draw.between(0, 48))];
      if (!plan_of(a, b).valid()) continue;
      const int scalar = (first_scalar + static_cast<int>(cases.size())) % 6;
      cases.push_back(draw_case(a, b, static_cast<int>(draw.between(0, 3)), scalar < 4, draw));
    }
    run(progress(), extents, cases, first_scalar++, failures);
    total += static_cast<index_t>(cases.size());
  }
  std::printf("exact sweep on one device: %lld configurations\n", static_cast<long long>(total));
  INFO(failures.text());
  CHECK(failures.count() == 0);
  CHECK(total >= 4000);
}

}  // namespace
}  // namespace partita::test
