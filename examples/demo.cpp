// SPDX-License-Identifier: Apache-2.0
// partita-demo DIRECTORY: multiplies the handwritten digits under every policy, and compares with NumPy's results.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "matmul_files/bound.hpp"
#include "matmul_files/product.hpp"

namespace {

using namespace matmul_files;

/// One product of the table and where its reference is stored.
struct Row {
  const char* name;
  Job job;
  std::string reference;
};

/// The grid of 8 ranks that a policy gets.
std::vector<int> grid_of_8(GridKind grid) {
  switch (grid) {
    case GridKind::line:
      return {8};
    case GridKind::rectangle:
      return {2, 4};
    case GridKind::layers:
      break;
  }
  return {2, 2, 2};
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

/// Multiplies, prints a line, and tells whether the result agrees: within the bound, or with no difference at all.
template <class T>
bool run(const PolicyName& policy, const Row& row, bool exact) {
  const NpyFile reference(row.reference);
  const index_t k = NpyFile(row.job.b).shape().rows;
  std::vector<double> differences(8);
  const auto compare = [&](RankContext& context, const Report&, Block block, View<const T> c) {
    differences[static_cast<std::size_t>(context.rank())] = difference(reference, k + 8 + 4, block, c);
  };
  const Report report = multiply_files<T>(find_policy(policy.name, row.job.transpose_a, row.job.transpose_b),
                                          grid_of_8(policy.grid), row.job, compare);

  index_t bytes = 0;
  for (const RankMoved& moved : report.ranks) bytes = std::max(bytes, moved.counted.bytes);
  const double seconds = *std::min_element(report.seconds.begin(), report.seconds.end());
  const double largest = *std::max_element(differences.begin(), differences.end());
  const bool agrees = largest <= (exact ? 0 : 1);
  char result[64] = "equal";
  if (largest > 0) std::snprintf(result, sizeof result, "%.2g of the bound", largest);
  std::printf("%-10s  %-7s  %-7s  %-12s  %-23s  %8.2f ms  %9.1f KB  %s%s\n", std::string(policy.name).c_str(), row.name,
              sizeof(T) == 4 ? "float32" : "float64", report.algorithm.c_str(), report.grid.c_str(), seconds * 1e3,
              static_cast<double>(bytes) / 1000, result, agrees ? "" : "  DISAGREES");
  return agrees;
}

int run(const std::string& directory) {
  const auto file = [&](const char* name) { return directory + "/" + name; };
  const std::string x = file("digits.npy");
  const Row gram{"X^T X", {.a = x, .b = x, .transpose_a = true, .repeat = 5}, file("reference_xtx.npy")};
  const Row similarity{"X X^T", {.a = x, .b = x, .transpose_b = true, .repeat = 5}, file("reference_xxt.npy")};
  const Row scores{"X means", {.a = x, .b = file("digits_class_means.npy"), .repeat = 5}, file("reference_xmeans.npy")};

  std::printf(
      "X: the handwritten digits, %s. 8 ranks, each a thread. Results beside NumPy's, stored with the data.\n\n",
      to_string(NpyFile(x).shape()).c_str());
  std::printf("%-10s  %-7s  %-7s  %-12s  %-23s  %11s  %12s  %s\n", "policy", "product", "type", "algorithm", "grid",
              "time", "moved/rank", "result");
  std::string disagreements;
  for (const PolicyName& policy : policy_names) {
    const auto check = [&](const Row& row, bool agrees) {
      if (!agrees) disagreements += "\n  " + std::string(row.name) + " under " + std::string(policy.name);
    };
    // Sums of integers below 2^24: exact in float32, in whatever order.
    check(gram, run<float>(policy, gram, true));
    check(similarity, run<float>(policy, similarity, true));
    check(scores, run<double>(policy, scores, false));
  }
  std::printf("\n%s\n",
              disagreements.empty() ? "all results agree" : ("these results disagree:" + disagreements).c_str());
  return disagreements.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: partita-demo DIRECTORY    (the directory of the digits: examples/data)\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "partita-demo: " << error.what() << "\n";
    return 1;
  }
}
