// SPDX-License-Identifier: Apache-2.0
// blas_core_type: prints the value of OPENBLAS_CORETYPE under which OpenBLAS multiplies fastest here, or nothing where
// its own choice is as good. An OpenBLAS that is older than the processor may take it for one of 2004.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../support/blas.hpp"
#include "../support/team.hpp"

namespace {

/// The GFLOP/s of one thread in this process.
double measure() {
  openblas_set_num_threads(1);
  const bench::Problem problem{"", 768, 768, 768};
  bench::BlasProduct<float> product(problem);
  product.run();
  double least = 1e9;
  for (int i = 0; i < 10; ++i) {
    const double start = bench::now();
    product.run();
    least = std::min(least, bench::now() - start);
  }
  return problem.flops() / least / 1e9;
}

/// The same in a process of its own, since the choice is made when the library is loaded. 0 where that fails.
double measure_as(const std::string& program, const std::string& type) {
  const std::string command =
      (type.empty() ? std::string("env -u OPENBLAS_CORETYPE '") : "OPENBLAS_CORETYPE=" + type + " '") + program +
      "' --measure 2>/dev/null";
  double value = 0;
  if (std::FILE* pipe = popen(command.c_str(), "r"); pipe != nullptr) {
    if (std::fscanf(pipe, "%lf", &value) != 1) value = 0;
    pclose(pipe);
  }
  return value;
}

std::vector<std::string> types_of_this_processor() {
  std::vector<std::string> types{""};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) types.insert(types.end(), {"Haswell", "Zen"});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) types.emplace_back("SkylakeX");
  if (__builtin_cpu_supports("avx512bf16")) types.emplace_back("Cooperlake");
#endif
  return types;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--measure") {
    std::printf("%.3f\n", measure());
    return 0;
  }
  const std::vector<std::string> types = types_of_this_processor();
  std::vector<double> best(types.size(), 0);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < types.size(); ++i) best[i] = std::max(best[i], measure_as(argv[0], types[i]));
  }
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < types.size(); ++i) {
    if (best[i] > 1.05 * best[0] && best[i] > best[fastest]) fastest = i;
    std::fprintf(stderr, "OPENBLAS_CORETYPE %s: %.0f GFLOP/s on one core, left alone %.0f\n", types[i].c_str(), best[i],
                 best[0]);
  }
  std::printf("%s\n", types[fastest].c_str());
  return 0;
}
