// SPDX-License-Identifier: Apache-2.0
// partita-demo DIRECTORY: multiplies the handwritten digits under every policy, and compares with NumPy's results.
// Ranks are 8 threads or, under mpirun in a build with MPI, its processes.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "matmul_files/bound.hpp"
#include "matmul_files/launcher.hpp"
#include "matmul_files/product.hpp"
#if MATMUL_FILES_MPI
#include "matmul_files/processes.hpp"
#endif

namespace {

using namespace matmul_files;

/// One product of the table and where its reference is stored.
struct Row {
  const char* name;
  Job job;
  std::string reference;
};

/// The grid that a policy gets: the most square one, in few layers. 2×4 and 2×2×2 for 8 ranks.
std::vector<int> grid_of(GridKind grid, int ranks) {
  if (grid == GridKind::line) return {ranks};
  const bool layers = grid == GridKind::layers;
  int side = 1;
  for (int s = 1; s * s <= ranks; ++s) {
    if (ranks % (layers ? s * s : s) == 0) side = s;
  }
  return layers ? std::vector<int>{ranks / (side * side), side, side} : std::vector<int>{side, ranks / side};
}

/// The largest difference from the reference, over the bound of rounding. Data and means are not negative, so that an
/// element is itself the sum of the magnitudes of its terms.
template <class T>
double difference(const NpyFile& reference, index_t steps, Block block, View<const T> c) {
  const Matrix<wider_t<T>> expected = Source{&reference}.template read<T>(block);
  double largest = 0;
  for (index_t i = 0; i < c.rows; ++i) {
    for (index_t j = 0; j < c.cols; ++j) {
      const wider_t<T> exact = expected(i, j);
      largest = std::max(largest, error_over_bound(c(i, j), exact, exact, steps));
    }
  }
  return largest;
}

/// Multiplies, prints a line on rank 0, and tells whether the result agrees: within the bound, or exactly.
template <class T, class Comm>
bool run_row(RankContext<Comm>& context, const PolicyName& policy, const Row& row, bool exact) {
  const NpyFile reference(row.reference);
  const index_t k = NpyFile(row.job.b).shape().rows;
  const int ranks = context.size();
  double largest = 0;
  const auto compare = [&](const Report&, Block block, View<const T> c) {
    largest = difference(reference, k + ranks + 4, block, c);
    const View<double> all(&largest, 1, 1, 1);
    context.comm().all_reduce(all, all, ReduceOp::max).wait();
  };
  const AnyPolicy chosen = find_policy(policy.name, row.job.transpose_a, row.job.transpose_b);
  const Report report =
      multiply_files<T>(HostRank<Comm>{context, context}, chosen, grid_of(policy.grid, ranks), row.job, compare);
  const bool agrees = largest <= (exact ? 0 : 1);
  if (context.rank() != 0) return agrees;

  index_t bytes = 0;
  for (const RankMoved& moved : report.ranks) bytes = std::max(bytes, moved.counted.bytes);
  const double seconds = *std::min_element(report.seconds.begin(), report.seconds.end());
  char result[64] = "equal";
  if (largest > 0) std::snprintf(result, sizeof result, "%.2g of the bound", largest);
  std::printf("%-10s  %-7s  %-7s  %-12s  %-23s  %8.2f ms  %9.1f KB  %s%s\n", std::string(policy.name).c_str(), row.name,
              sizeof(T) == 4 ? "float32" : "float64", report.algorithm.c_str(), report.grid.c_str(), seconds * 1e3,
              static_cast<double>(bytes) / 1000, result, agrees ? "" : "  DISAGREES");
  return agrees;
}

/// The table, as all ranks make it and rank 0 prints it. Returns the exit status.
template <class Comm>
int run(RankContext<Comm>& context, const std::string& directory, const char* rank_kind) {
  const auto file = [&](const char* name) { return directory + "/" + name; };
  const std::string x = file("digits.npy");
  const Row gram{"X^T X", {.a = x, .b = x, .transpose_a = true, .repeat = 5}, file("reference_xtx.npy")};
  const Row similarity{"X X^T", {.a = x, .b = x, .transpose_b = true, .repeat = 5}, file("reference_xxt.npy")};
  const Row scores{"X means", {.a = x, .b = file("digits_class_means.npy"), .repeat = 5}, file("reference_xmeans.npy")};

  const bool prints = context.rank() == 0;
  if (prints) {
    std::printf("X: the handwritten digits, %s. %d ranks, each %s. Results beside NumPy's, stored with the data.\n\n",
                to_string(NpyFile(x).shape()).c_str(), context.size(), rank_kind);
    std::printf("%-10s  %-7s  %-7s  %-12s  %-23s  %11s  %12s  %s\n", "policy", "product", "type", "algorithm", "grid",
                "time", "moved/rank", "result");
  }
  std::string disagreements;
  for (const PolicyName& policy : policy_names) {
    const auto check = [&](const Row& row, bool agrees) {
      if (!agrees) disagreements += "\n  " + std::string(row.name) + " under " + std::string(policy.name);
    };
    // Sums of integers below 2^24: exact in float32, in whatever order.
    check(gram, run_row<float>(context, policy, gram, true));
    check(similarity, run_row<float>(context, policy, similarity, true));
    check(scores, run_row<double>(context, policy, scores, false));
  }
  if (prints) {
    std::printf("\n%s\n",
                disagreements.empty() ? "all results agree" : ("these results disagree:" + disagreements).c_str());
    std::fflush(stdout);
  }
  return disagreements.empty() ? 0 : 1;
}

int fail(int status, const std::string& text) {
  std::cerr << "partita-demo: " << text << std::endl;
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail(2, "usage: partita-demo DIRECTORY    (the directory of the digits: examples/data)");
  const std::string directory = argv[1];
  try {
#if MATMUL_FILES_MPI
    if (under_mpirun()) {
      return on_processes(argc, argv, fail, [&](RankContext<MpiComm>& context) {
        return run(context, directory, "a process under MPI");
      });
    }
#endif
    const std::string refusal = threads_refused("ranks are threads in this build", "build with -DPARTITA_MPI=ON");
    if (!refusal.empty())
      return launched_rank() == 0 ? fail(2, refusal) : 0;  // so that mpirun stops none before it tells
    int status = 0;
    on_threads(8, [&](RankContext<ThreadComm>& context) {
      const int own = run(context, directory, "a thread");
      if (context.rank() == 0) status = own;
    });
    return status;
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}
