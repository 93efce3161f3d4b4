// SPDX-License-Identifier: Apache-2.0
// The options of a policy's grid on a command line, and what is said of those that do not fit.
#pragma once

#include <string>
#include <vector>

#include "partita/base/config.hpp"
#include "partita/base/error.hpp"

namespace matmul_files {

using namespace partita;

/// Wrong usage; the text says what would work.
struct UsageError : Error {
  using Error::Error;
};

/// The shape of a policy's grid, which decides the options that describe it.
enum class GridKind { line, rectangle, layers };

/// As given; 0 is "not given". `processes`: how many mpirun has started, or 0, and ranks are threads.
struct GridOptions {
  int ranks = 0, rows = 0, cols = 0, q = 0, d = 0;
  int processes = 0;
};

inline constexpr int most_ranks = 1024;

/// "--q 1 --d 8 or --q 2 --d 2": every q, d with d·q·q = ranks.
inline std::string layers_text(int ranks) {
  std::string text;
  for (int q = 1; q * q <= ranks; ++q) {
    if (ranks % (q * q) != 0) continue;
    text += (text.empty() ? "" : " or ") + ("--q " + std::to_string(q)) + " --d " + std::to_string(ranks / (q * q));
  }
  return text;
}

inline std::vector<int> line_extents(const std::string& policy, const GridOptions& given) {
  if (given.rows != 0 || given.cols != 0 || given.q != 0 || given.d != 0) {
    throw UsageError("policy " + policy + " has a grid of one axis: give --ranks P alone");
  }
  return {given.ranks == 0 ? 4 : given.ranks};
}

inline std::vector<int> rectangle_extents(const GridOptions& given) {
  if (given.q != 0 || given.d != 0)
    throw UsageError("policy summa2d takes --rows R --cols C or --ranks P, not --q, --d");
  if ((given.rows == 0) != (given.cols == 0)) throw UsageError("policy summa2d takes --rows and --cols together");
  if (given.rows == 0) {  // the most square grid
    const int ranks = given.ranks == 0 ? 4 : given.ranks;
    int rows = 1;
    for (int r = 1; r * r <= ranks; ++r) {
      if (ranks % r == 0) rows = r;
    }
    return {rows, ranks / rows};
  }
  const int ranks = given.rows * given.cols;
  if (given.ranks != 0 && given.ranks != ranks) {
    throw UsageError("a grid of " + std::to_string(given.rows) + " rows and " + std::to_string(given.cols) +
                     " columns has " + std::to_string(ranks) + " ranks, not " + std::to_string(given.ranks) +
                     ": give --ranks " + std::to_string(ranks) + ", or leave it out");
  }
  return {given.rows, given.cols};
}

inline std::vector<int> layers_extents(const std::string& policy, const GridOptions& given) {
  if (given.rows != 0 || given.cols != 0) {
    throw UsageError("policy " + policy + " takes --q Q --d D (d*q*q ranks), not --rows, --cols");
  }
  if ((given.q == 0) != (given.d == 0)) throw UsageError("policy " + policy + " takes --q and --d together");
  if (given.q == 0 && given.ranks != 0) {
    throw UsageError("policy " + policy + " on " + std::to_string(given.ranks) + " ranks: give " +
                     layers_text(given.ranks));
  }
  const int q = given.q == 0 ? 2 : given.q;
  const int d = given.d == 0 ? 2 : given.d;
  if (given.ranks != 0 && given.ranks != d * q * q) {
    throw UsageError("--q " + std::to_string(q) + " --d " + std::to_string(d) + " needs " + std::to_string(d * q * q) +
                     " ranks (d*q*q), not " + std::to_string(given.ranks) + "; for " + std::to_string(given.ranks) +
                     " give " + layers_text(given.ranks));
  }
  return {d, q, q};
}

/// What would put the policy on so many processes.
inline std::string fitting_text(GridKind grid, int processes) {
  return grid == GridKind::layers ? layers_text(processes)
                                  : "--ranks " + std::to_string(processes) + " or no option of the grid";
}

/// Throws UsageError where a grid of so many ranks is not one of all processes.
inline void check_processes(index_t ranks, GridKind grid, int processes) {
  if (processes == 0 || ranks == processes) return;
  throw UsageError(std::to_string(ranks) + " ranks are asked for, and MPI has " + std::to_string(processes) +
                   (processes == 1 ? " process" : " processes") + ": give " + fitting_text(grid, processes) +
                   ", or start as many with mpirun -n " + std::to_string(ranks));
}

/// The extents of a policy's grid. Throws UsageError where the options do not fit the policy, or the processes.
inline std::vector<int> grid_extents(const std::string& policy, GridKind kind, GridOptions given) {
  std::vector<int> extents;
  if (given.ranks != 0) check_processes(given.ranks, kind, given.processes);
  const bool grid_given = given.rows != 0 || given.cols != 0 || given.q != 0 || given.d != 0;
  if (!grid_given && given.processes != 0 && !(kind == GridKind::layers && given.processes == 8)) {
    given.ranks = given.processes;
  }
  extents = kind == GridKind::line        ? line_extents(policy, given)
            : kind == GridKind::rectangle ? rectangle_extents(given)
                                          : layers_extents(policy, given);
  index_t ranks = 1;
  for (const int extent : extents) ranks *= extent;
  check_processes(ranks, kind, given.processes);
  if (ranks > most_ranks && given.processes == 0) {
    throw UsageError(std::to_string(ranks) + " ranks, each a thread: at most " + std::to_string(most_ranks) +
                     " can be asked for");
  }
  return extents;
}

}  // namespace matmul_files
