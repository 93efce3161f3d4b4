// SPDX-License-Identifier: Apache-2.0
// What is measured side by side, and what it should reach: the one table of cells and goals.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "../support/problem.hpp"

namespace bench {

/// No goal is set.
inline constexpr double no_goal = 0;

/// The least efficiency of the best policy: the time of OpenBLAS on all cores over that of the distributed product.
/// fp64 and 16 ranks may be `allowance` lower.
struct EfficiencyGoals {
  Problem problem;
  double threads, mpi_4, mpi_8;
};
inline constexpr EfficiencyGoals efficiency_goals[] = {
    {{"256x256x256", 256, 256, 256}, 0.90, 0.75, no_goal},
    {{"512x512x512", 512, 512, 512}, 0.94, 0.90, 0.86},
    {{"1024x1024x1024", 1024, 1024, 1024}, 0.96, 0.94, 0.92},
    {{"2048x2048x2048", 2048, 2048, 2048}, 0.97, 0.96, 0.95},
    {{"2048x4096x1024", 2048, 4096, 1024}, 0.97, 0.96, 0.95},
    {{"4096x4096x4096", 4096, 4096, 4096}, 0.97, 0.95, no_goal},
    {{"256x256x65536", 256, 256, 65536}, 1.05, 1.06, 1.08},
    {{"8192x128x8192", 8192, 128, 8192}, 0.98, 0.97, 0.95},
    // The gradients of Y[2048,4096] = X[2048,1024]·W[1024,4096]: dX = dY·Wᵀ and dW = Xᵀ·dY.
    {{"dX 2048x1024x4096", 2048, 1024, 4096, false, true}, 0.96, 0.95, 0.93},
    {{"dW 1024x4096x2048", 1024, 4096, 2048, true, false}, 0.96, 0.95, 0.93},
};
inline constexpr double allowance = 0.05;

/// The best policy against ScaLAPACK on as many ranks: the geometric mean of the ratios of their efficiencies over all
/// problems, and the least that any of them may be.
struct PeerGoals {
  double threads = 1.25, mpi_4 = 1.2, mpi_8 = 1.2;
  double least = 1.1;
};
inline constexpr PeerGoals peer_goals;

/// The most time of a product whose operands lie in blocks of columns, against that of the native layout.
struct ColumnGoals {
  double threads = 1.15, mpi_4 = 1.3, mpi_8 = 1.3;
};
inline constexpr ColumnGoals column_goals;
inline constexpr std::string_view column_problems[] = {"1024x1024x1024", "2048x4096x1024", "8192x128x8192"};

/// The collectives of 4 ranks that are threads against those of Open MPI: how many times as fast.
inline constexpr double collective_goal = 4;
inline constexpr int collective_ranks = 4;
inline constexpr std::string_view collectives[] = {"all_reduce", "reduce_scatter"};
inline constexpr index_t collective_bytes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

/// Elements moved by a rank against the lower bound: the one-copy policy that moves least. On a cube, 2×2×2 ranks reach
/// the bound.
inline constexpr double moved_goal = 1.15;
inline constexpr int moved_ranks[] = {4, 8};

/// The policies with several copies or layers on 8 ranks that are threads.
inline constexpr double worst_goal = 0.90;
inline constexpr int worst_ranks = 8;
inline constexpr std::string_view worst_policies[] = {"summa25d", "splitk_rows"};
inline constexpr std::string_view worst_problems[] = {"1024x1024x1024", "2048x2048x2048", "2048x4096x1024"};

// ---- Cells ---------------------------------------------------------------------------------------------------------

enum class Kind { threads, mpi };

/// One problem on so many ranks of a kind; all contestants of a cell are measured beside each other.
struct Cell {
  Problem problem;
  bool fp64;
  Kind kind;
  int ranks;
};

[[nodiscard]] constexpr double goal_of(const EfficiencyGoals& row, const Cell& cell) {
  const double goal = cell.kind == Kind::threads ? row.threads : cell.ranks == 4 ? row.mpi_4 : row.mpi_8;
  return goal == no_goal ? no_goal : goal - (cell.fp64 || cell.ranks == 16 ? allowance : 0);
}

/// All cells. On 2 and on 16 threads the gradients are left out, and on 2 the largest problem: they take long and tell
/// least. The two collectives are cells too.
[[nodiscard]] inline std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (const int ranks : {2, 4, 8, 16}) {
    for (const EfficiencyGoals& row : efficiency_goals) {
      const bool gradient = row.problem.transpose_a || row.problem.transpose_b;
      if (gradient && (ranks == 2 || ranks == 16)) continue;
      if (ranks == 2 && row.problem.flops() > 1e11) continue;
      cells.push_back({row.problem, false, Kind::threads, ranks});
    }
  }
  for (const int ranks : {4, 8}) {
    for (const EfficiencyGoals& row : efficiency_goals) {
      const Cell cell{row.problem, false, Kind::mpi, ranks};
      if (goal_of(row, cell) != no_goal) cells.push_back(cell);
    }
  }
  for (const EfficiencyGoals& row : efficiency_goals) {
    const std::string_view name = row.problem.name;
    if (name == "1024x1024x1024") {
      cells.push_back({row.problem, true, Kind::threads, 4});
      cells.push_back({row.problem, true, Kind::mpi, 4});
    }
    if (name == "2048x4096x1024") cells.push_back({row.problem, true, Kind::threads, 8});
  }
  return cells;
}
inline constexpr std::size_t most_cells = 60;

[[nodiscard]] constexpr const char* kind_name(Kind kind) { return kind == Kind::threads ? "threads" : "mpi"; }

template <class List>
[[nodiscard]] bool contains(const List& list, std::string_view name) {
  for (const std::string_view entry : list) {
    if (entry == name) return true;
  }
  return false;
}

}  // namespace bench
