// SPDX-License-Identifier: Apache-2.0
// The command line of partita-matmul: what it accepts, and what it says to what it does not.
#pragma once

#include <string>
#include <vector>

#include "policies.hpp"
#include "product.hpp"

#include <CLI/CLI.hpp>

namespace matmul_files {

/// Wrong usage; the text says what would work.
struct UsageError : Error {
  using Error::Error;
};

/// What the command line asks for.
struct Options {
  Job job;
  std::string comm = "threads";
  std::string policy;
  std::vector<int> extents;  // of the policy's grid
  bool verify = false;
  bool explain = false;
};

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
inline std::vector<int> grid_extents(const std::string& policy, GridOptions given) {
  std::vector<int> extents;
  GridKind kind = GridKind::line;
  for (const PolicyName& entry : policy_names) {
    if (entry.name == policy) kind = entry.grid;
  }
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

inline constexpr const char* about =
    R"(C = alpha*op(A)*op(B) + beta*C0 on ranks that are threads of this process or, with --comm mpi
in a build with MPI, the processes that mpirun has started.

A policy names the partitions of op(A) and op(B), and with them the algorithm:
  replicated  Replicated x Replicated    --ranks P            (4)
  column      Replicated x ColumnShard   --ranks P            (4)
  row         ColumnShard x RowShard     --ranks P            (4)
  summa2d     Summa2D x Summa2D          --rows R --cols C    (2 x 2), or --ranks P: the most square grid
  summa25d    Summa25D x Summa25DWeight  --q Q --d D          (2, 2): d*q*q ranks
  splitk      SplitKLeft x SplitKRight   --q Q --d D          (2, 2): d*q*q ranks
With --comm mpi the grid is one of all processes, the most square one unless it is given; summa25d and splitk need
d*q*q processes. Rank 0 alone prints.
A transposed operand is stored in the transposed partition, but for summa25d --transpose-a, where both operands are
stored as Summa25D (the weight gradient).

Files are little-endian .npy; a 1-D array of n elements is n x 1. Result: float32 where A and B are float32 or float16,
float64 where either is float64 or of integers or booleans; complex of that precision where either is complex. C0 is
converted to the result's type. Nothing is written where anything fails; an older C.npy then stays as it was.
Exit status: 0; 2 for wrong usage; 1 for any other error, told in one line.)";

/// Whether the command line says --comm mpi: MPI begins before the rest is read, so that one rank tells an error.
inline bool asks_for_mpi(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--comm=mpi" || (argument == "--comm" && i + 1 < argc && argv[i + 1] == std::string("mpi"))) {
      return true;
    }
  }
  return false;
}

/// Reads the command line, for ranks that are threads or so many processes. Throws CLI::ParseError (CLI::CallForHelp
/// among them) and UsageError.
inline Options parse_options(CLI::App& app, int argc, char** argv, int processes = 0) {
  Options options;
  GridOptions grid;
  grid.processes = processes;
  Job& job = options.job;
  std::vector<std::string> names;
  for (const PolicyName& entry : policy_names) names.emplace_back(entry.name);
  const CLI::Range count(1, most_ranks);
  const CLI::Range positive(index_t{1}, index_t{1} << 40);
  bool gathers = false;

  app.add_option("A", job.a, "Left operand")->required()->type_name("A.npy");
  app.add_option("B", job.b, "Right operand")->required()->type_name("B.npy");
  app.add_option("-o,--output", job.output, "Where the result goes")->required()->type_name("C.npy");
  app.add_option("--policy", options.policy, "Partitions of the operands")->required()->check(CLI::IsMember(names));
  app.add_option("--comm", options.comm, "What ranks are, threads unless given")
      ->check(CLI::IsMember(std::vector<std::string>{"threads", "mpi"}))
      ->type_name("threads|mpi");
  app.add_option("--ranks", grid.ranks, "Number of ranks")->check(count)->type_name("P");
  app.add_option("--rows", grid.rows, "Rows of the grid")->check(count)->type_name("R");
  app.add_option("--cols", grid.cols, "Columns of the grid")->check(count)->type_name("C");
  app.add_option("--q", grid.q, "Rows and columns of each layer of the grid")->check(count)->type_name("Q");
  app.add_option("--d", grid.d, "Layers of the grid")->check(count)->type_name("D");
  app.add_flag("--transpose-a", job.transpose_a, "A.npy holds the transpose of the left operand");
  app.add_flag("--transpose-b", job.transpose_b, "B.npy holds the transpose of the right operand");
  app.add_option("--alpha", job.alpha, "Factor of the product, 1 unless given")->type_name("X");
  app.add_option("--beta", job.beta, "Factor of C0, 0 unless given")->type_name("Y");
  app.add_option("--c", job.c0, "What beta multiplies")->type_name("C0.npy");
  app.add_option("--repeat", job.repeat, "Number of timed products")->check(CLI::Range(1, 1000000))->type_name("N");
  app.add_flag("--verify", options.verify,
               "Compute C again in a wider type and fail where the error exceeds its bound");
  app.add_option("--panel-width", job.options.panel_width, "Widest panel; unless given, what suits the ranks")
      ->check(positive)
      ->type_name("W");
  app.add_option("--lookahead", job.options.lookahead, "Panels in flight; unless given, what suits the ranks")
      ->check(CLI::Range(1, 32))
      ->type_name("L");
  app.add_flag("--all-gather", gathers, "Move panels by all-gathers of slices where blocks are even");
  app.add_flag("--explain", options.explain, "Print the steps of rank 0");
  app.parse(argc, argv);

  if (job.beta != 0 && job.c0.empty()) throw UsageError("--beta needs --c C0.npy, the matrix that it multiplies");
  if (!job.c0.empty() && app.count("--beta") == 0) throw UsageError("--c needs --beta Y, its factor");
  if (!std::isfinite(job.alpha) || !std::isfinite(job.beta)) throw UsageError("--alpha and --beta take finite numbers");
  if (gathers) job.options.panels = PanelMove::all_gather;
  options.extents = grid_extents(options.policy, grid);
  return options;
}

}  // namespace matmul_files
