// SPDX-License-Identifier: Apache-2.0
// The command line of partita-matmul: what it accepts, and what it says to what it does not.
#pragma once

#include <string>
#include <vector>

#include "grid_options.hpp"
#include "policies.hpp"
#include "product.hpp"

#include <CLI/CLI.hpp>

namespace matmul_files {

/// What the command line asks for.
struct Options {
  Job job;
  std::string comm = "threads";
  std::string policy;
  std::vector<int> extents;  // of the policy's grid
  bool verify = false;
  bool explain = false;
};

/// The extents of the grid of a policy by its name.
inline std::vector<int> grid_extents(const std::string& policy, const GridOptions& given) {
  for (const PolicyName& entry : policy_names) {
    if (entry.name == policy) return grid_extents(policy, entry.grid, given);
  }
  throw UsageError("there is no policy " + policy);
}

inline constexpr const char* about =
    R"(C = alpha*op(A)*op(B) + beta*C0 on ranks that are threads of this process; with --comm mpi, in a
build with MPI, the processes that mpirun has started; with --comm nccl, in a build with CUDA, threads of this process
with a GPU each.

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
      ->check(CLI::IsMember(std::vector<std::string>{"threads", "mpi", "nccl"}))
      ->type_name("threads|mpi|nccl");
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
