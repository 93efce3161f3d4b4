// SPDX-License-Identifier: Apache-2.0
// The local product of one rank, by each backend: square blocks, panels, transposes; and OpenBLAS on all cores.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/all_cores.hpp"
#include "support/backend.hpp"
#include "support/blas.hpp"
#include "support/team.hpp"

namespace {

using namespace bench;

constexpr Problem problems[] = {
    {"64x64x64", 64, 64, 64},
    {"256x256x256", 256, 256, 256},
    {"512x512x512", 512, 512, 512},
    {"1024x1024x1024", 1024, 1024, 1024},
    {"1024x1024x128", 1024, 1024, 128},
    {"1024x128x1024", 1024, 128, 1024},
    {"16x1024x1024", 16, 1024, 1024},
    {"1024x1024x1024 Bt", 1024, 1024, 1024, false, true},
    {"1024x1024x1024 At", 1024, 1024, 1024, true, false},
};

int iterations_of(const Problem& problem) { return static_cast<int>(std::clamp(5e9 / problem.flops(), 5.0, 500.0)); }

/// Times f in all iterations, and notes the rate.
template <class F>
void time_product(benchmark::State& state, const Problem& problem, const F& f) {
  f();
  std::vector<double> times;
  for ([[maybe_unused]] auto unused : state) {
    const double start = now();
    f();
    times.push_back(now() - start);
    state.SetIterationTime(times.back());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  state.counters["GFLOP/s"] = problem.flops() / times[times.size() / 2] / 1e9;
}

template <class T, class B>
void run_backend(benchmark::State& state, const Problem& problem) {
  using partita::MatrixOperand;
  const Shape a_shape = problem.stored_a();
  const Shape b_shape = problem.stored_b();
  std::vector<T> a(static_cast<std::size_t>(a_shape.size()), T(1.0F));
  std::vector<T> b(static_cast<std::size_t>(b_shape.size()), T(1.0F));
  std::vector<partita::accumulate_t<T>> c(static_cast<std::size_t>(problem.m * problem.n));
  const MatrixOperand<T> left{View<const T>(a.data(), a_shape), problem.transpose_a};
  const MatrixOperand<T> right{View<const T>(b.data(), b_shape), problem.transpose_b};
  const View<partita::accumulate_t<T>> out(c.data(), problem.m, problem.n, problem.n);
  openblas_set_num_threads(1);
  B backend;
  time_product(state, problem, [&] { backend.template gemm<T>(1, left, right, out); });
}

template <class T>
void run_all_cores(benchmark::State& state, const Problem& problem) {
  BlasProduct<T> product(problem);
  openblas_set_num_threads(core_count());
  time_product(state, problem, [&] { product.run(); });
  openblas_set_num_threads(1);
}

void enroll(const std::string& name, const Problem& problem, void (*run)(benchmark::State&, const Problem&)) {
  benchmark::RegisterBenchmark((name + "/" + problem.name).c_str(),
                               [run, problem](benchmark::State& state) { run(state, problem); })
      ->Iterations(iterations_of(problem))
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  using partita::BlasBackend;
  using partita::EigenBackend;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const Problem& problem : problems) {
    enroll("eigen/f32", problem, run_backend<float, EigenBackend>);
    enroll("blas/f32", problem, run_backend<float, BlasBackend>);
    enroll("blas, all cores/f32", problem, run_all_cores<float>);
    enroll("eigen/f64", problem, run_backend<double, EigenBackend>);
    enroll("blas/f64", problem, run_backend<double, BlasBackend>);
    enroll("blas, all cores/f64", problem, run_all_cores<double>);
    enroll("blas/bf16", problem, run_backend<partita::bfloat16, BlasBackend>);
    enroll("blas/f16", problem, run_backend<partita::half, BlasBackend>);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
