// SPDX-License-Identifier: Apache-2.0
// A first table of speed: one rank beside plain cuBLAS, and ranks that share the device beside one product.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/partita.hpp"
#include "records.hpp"

namespace gpu_check {

using namespace partita;

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

/// C = A·B by one call of cuBLAS, row-major, C of the operands' type.
template <class T>
class PlainProduct {
 public:
  PlainProduct(CudaTimeline& timeline, index_t n)
      : timeline_(timeline),
        n_(n),
        handle_(detail::make_cublas()),
        workspace_(std::size_t{32} << 20, timeline.compute()),
        memory_(3 * static_cast<std::size_t>(n * n) * sizeof(T), timeline.compute()) {
    detail::cublas_check(cublasSetStream(handle_.get(), timeline.compute()), "cublasSetStream");
    detail::cublas_check(cublasSetWorkspace(handle_.get(), workspace_.data(), workspace_.bytes()),
                         "cublasSetWorkspace");
  }

  /// The operands, as the distributed ones are filled.
  void fill(View<const T> a, View<const T> b) {
    for (const auto& [from, at] : {std::pair(a, 0), std::pair(b, 1)}) {
      detail::cuda_check(cudaMemcpyAsync(block(at), from.data, bytes(), cudaMemcpyDefault, timeline_.compute()),
                         "cudaMemcpyAsync");
    }
    timeline_.sync();
  }
  void run() {
    const accumulate_t<T> one(1), zero(0);
    detail::cublas_check(
        cublasGemmEx_64(handle_.get(), CUBLAS_OP_N, CUBLAS_OP_N, n_, n_, n_, &one, block(1), detail::cuda_type<T>(), n_,
                        block(0), detail::cuda_type<T>(), n_, &zero, block(2), detail::cuda_type<T>(), n_,
                        detail::cuda_compute<T>(false), CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(n_ * n_) * sizeof(T); }
  [[nodiscard]] T* block(index_t i) const { return static_cast<T*>(memory_.data()) + i * n_ * n_; }

  CudaTimeline& timeline_;
  index_t n_;
  detail::CublasOwner handle_;
  CudaMemory workspace_;
  CudaMemory memory_;
};

/// Seconds of one of `count` calls that follow each other.
template <class F>
double seconds_of(CudaTimeline& timeline, int count, const F& f) {
  timeline.sync();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) f();
  timeline.sync();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
}

constexpr auto filling = [](index_t i, index_t j) { return static_cast<float>((i * 31 + j * 17) % 13 - 6) / 16; };

/// matmul on a grid of these ranks, n×n by n×n, and plain cuBLAS on rank 0, in turn; `meet` waits for all ranks.
/// Gives Tflop/s and how many times as long as cuBLAS it takes, by the medians over the rounds.
template <class T, class P, class Ctx, class Meet>
void measure_product(Ctx& context, const std::vector<int>& extents, index_t n, const std::string& what,
                     const Meet& meet, Records& records) {
  constexpr int rounds = 5;
  CudaTimeline& timeline = *context.backend().timeline();
  const auto grid = make_grid_of<typename P::grid_type>(context, extents);
  const auto a = from_function<T, P>(grid, {n, n}, filling);
  const auto b = from_function<T, P>(grid, {n, n}, filling);
  auto c = matmul(a, b);
  const bool plain_here = context.rank() == 0;
  std::unique_ptr<PlainProduct<T>> plain;
  if (plain_here) {
    std::vector<T> values(static_cast<std::size_t>(n * n));
    for (index_t i = 0; i < n; ++i) {
      for (index_t j = 0; j < n; ++j) values[static_cast<std::size_t>(i * n + j)] = static_cast<T>(filling(i, j));
    }
    const View<const T> all(values.data(), n, n, n);
    plain = std::make_unique<PlainProduct<T>>(timeline, n);
    plain->fill(all, all);
    plain->run();
  }
  const double work = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const int count = static_cast<int>(std::clamp(2e12 / work, 1.0, 50.0));
  std::vector<double> ours, theirs;
  for (int round = 0; round < rounds; ++round) {
    meet();
    if (plain_here) theirs.push_back(seconds_of(timeline, count, [&] { plain->run(); }));
    meet();
    const double own = seconds_of(timeline, count, [&] { matmul_into(c, a, b); });
    ours.push_back(static_cast<double>(context.comm().agree(static_cast<index_t>(own * 1e9))) * 1e-9);
  }
  if (!plain_here) return;
  char detail[64];
  std::snprintf(detail, sizeof detail, "%.2f times the time of cuBLAS", median(ours) / median(theirs));
  records.add({.section = "speed",
               .what = what + ", n = " + std::to_string(n),
               .ranks = context.size(),
               .value = work / median(ours) * 1e-12,
               .unit = "Tflop/s",
               .detail = detail});
}

}  // namespace gpu_check
