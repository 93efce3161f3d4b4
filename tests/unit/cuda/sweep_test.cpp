// SPDX-License-Identifier: Apache-2.0
// The exact sweep on devices, and products at the edges of their sizes: integer data, so that every result must equal
// the serial one bit for bit; and on the stand-ins no two accesses of streams may race.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "support/device_case.hpp"
#include "support/draw.hpp"
#include "support/edge_cases.hpp"
#include "support/layouts.hpp"
#include "support/sweep_share.hpp"

namespace partita::test {
namespace {

template <class Comm>
class Sweep {
 public:
  explicit Sweep(std::uint64_t seed) : draw_(seed) {}

  /// `per_row` cases of each row of the table on each grid, and `per_grid` of random pairs of all partitions.
  void run(int per_row, std::size_t per_grid) {
    const std::vector<std::vector<int>> grids[] = {
        {{1}, {2}, {3}, {5}, {8}},
        {{1, 1}, {2, 2}, {2, 3}, {4, 2}},
        {{1, 2, 2}, {2, 2, 2}, {2, 1, 1}, {2, 1, 3}},
    };
    for (int axes = 1; axes <= 3; ++axes) {
      for (const auto& extents : grids[axes - 1]) {
        std::vector<ProductCase> cases;
        for (const TableRow& row : table_rows) {
          for (int i = 0; row.axes == axes && i < per_row; ++i) add(cases, row.a, row.b, i % 4);
        }
        run(extents, cases);
      }
    }
    const auto layouts = all_layouts();
    for (const auto& extents : std::vector<std::vector<int>>{{2, 2, 2}, {1, 2, 3}, {2, 1, 3}, {3, 2, 1}, {1, 2, 2}}) {
      std::vector<ProductCase> cases;
      while (cases.size() < per_grid) {
        const Layout& a = layouts[static_cast<std::size_t>(draw_.between(0, 48))];
        const Layout& b = layouts[static_cast<std::size_t>(draw_.between(0, 48))];
        if (plan_of(a, b).valid()) add(cases, a, b, static_cast<int>(draw_.between(0, 3)));
      }
      run(extents, cases);
    }
  }
  /// Every 13th product at the edges of its sizes, on 1 to 8 ranks.
  void run_edges() {
    const std::vector<std::pair<std::vector<int>, int>> grids = {
        {{1}, 1},    {{2}, 2},    {{3}, 3},    {{4}, 4},       {{8}, 8},       {{1, 1}, 1},   {{1, 3}, 3},
        {{2, 2}, 2}, {{2, 4}, 4}, {{4, 2}, 4}, {{2, 1, 1}, 2}, {{2, 2, 2}, 2}, {{1, 2, 4}, 4}};
    std::size_t first = 0;
    for (const auto& [extents, q] : grids) run(extents, some_of(edge_cases(extents, q), 13, first++));
  }
  [[nodiscard]] index_t total() const { return total_; }
  [[nodiscard]] const Failures& failures() const { return failures_; }

 private:
  /// Scalars follow in turn.
  [[nodiscard]] int scalar(std::size_t i) const { return static_cast<int>((first_scalar_ + i) % 6); }

  void add(std::vector<ProductCase>& cases, const Layout& a, const Layout& b, int transposes) {
    ProductCase c = draw_case(a, b, transposes, scalar(cases.size()) < 4, draw_);
    if (draw_.chance(30)) c.options.panels.reset();
    cases.push_back(c);
  }

  void run(const std::vector<int>& extents, const std::vector<ProductCase>& cases) {
    if (!has_devices<Comm>(rank_count(extents))) return;
    const DeviceMachine machine(devices_of<Comm>(rank_count(extents)), ++machines_ % 4 == 0);
    const auto names = axis_names(static_cast<int>(extents.size()));
    on_device_grid<Comm>(extents, [&](ProcessGrid<DeviceContextOf<Comm>>& grid) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        if (!in_share(drawn_ + static_cast<index_t>(i))) continue;
        const CaseResult found = run_device_case_of(scalar(i), grid, cases[i]);
        if (found.failure.empty()) continue;
        failures_.add("rank " + std::to_string(grid.context().rank()) + " of " +
                      detail::grid_text(names, grid.extents()) + ", case " + std::to_string(i) + ": " +
                      describe(cases[i], names) + ": " + found.failure);
      }
    });
    ++first_scalar_;
    for (std::size_t i = 0; i < cases.size(); ++i) total_ += in_share(drawn_++) ? 1 : 0;
  }

  Draw draw_;
  std::size_t first_scalar_ = 0;
  int machines_ = 0;
  index_t drawn_ = 0;
  index_t total_ = 0;  // those of them that ran
  Failures failures_;
};

index_t least() { return static_cast<index_t>(4000 * sweep_share()); }

TEST_CASE("exact sweep of ranks on one device: every table row, all transposes, random pairs of all partitions") {
  Sweep<CudaThreadComm> sweep(20260302);
  sweep.run(36, 420);
  std::printf("exact sweep on one device: %lld configurations\n", static_cast<long long>(sweep.total()));
  INFO(sweep.failures().text());
  CHECK(sweep.failures().count() == 0);
  CHECK(sweep.total() >= least());
}

TEST_CASE("exact sweep of ranks on a device each, by NCCL") {
  Sweep<NcclComm> sweep(20260303);
  sweep.run(36, 420);
  std::printf("exact sweep on a device for each rank: %lld configurations\n", static_cast<long long>(sweep.total()));
  INFO(sweep.failures().text());
  CHECK(sweep.failures().count() == 0);
  if (!on_device) CHECK(sweep.total() >= least());
}

template <class Comm>
void check_edges() {
  Sweep<Comm> sweep(0);
  sweep.run_edges();
  INFO(sweep.failures().text());
  CHECK(sweep.failures().count() == 0);
  if (!on_device) CHECK(sweep.total() >= static_cast<index_t>(1500 * sweep_share()));
}
TEST_CASE("edge shapes of ranks on one device") { check_edges<CudaThreadComm>(); }
TEST_CASE("edge shapes of ranks on a device each, by NCCL") { check_edges<NcclComm>(); }

}  // namespace
}  // namespace partita::test
