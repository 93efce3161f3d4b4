// SPDX-License-Identifier: Apache-2.0
// The baseline: OpenBLAS on as many threads as asked for.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>

#include "problem.hpp"

extern "C" {
void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c,
            const int* ldc);
void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc);
void openblas_set_num_threads(int threads);
}

namespace bench {

/// The whole matrices of a problem on one rank, and their product by OpenBLAS.
template <class T>
class BlasProduct {
 public:
  explicit BlasProduct(const Problem& problem)
      : problem_(problem),
        a_(make(problem.stored_a(), seed_of_a)),
        b_(make(problem.stored_b(), seed_of_b)),
        c_(std::make_unique<T[]>(static_cast<std::size_t>(problem.m * problem.n))) {}

  void run() {
    // A row-major C = op(A)·op(B) is a column-major Cᵀ = op(B)ᵀ·op(A)ᵀ.
    const int m = static_cast<int>(problem_.m);
    const int n = static_cast<int>(problem_.n);
    const int k = static_cast<int>(problem_.k);
    const int lda = static_cast<int>(problem_.stored_a().cols);
    const int ldb = static_cast<int>(problem_.stored_b().cols);
    const char* transpose_a = problem_.transpose_a ? "T" : "N";
    const char* transpose_b = problem_.transpose_b ? "T" : "N";
    const T one = 1;
    const T zero = 0;
    if constexpr (std::same_as<T, float>) {
      sgemm_(transpose_b, transpose_a, &n, &m, &k, &one, b_.get(), &ldb, a_.get(), &lda, &zero, c_.get(), &n);
    } else {
      dgemm_(transpose_b, transpose_a, &n, &m, &k, &one, b_.get(), &ldb, a_.get(), &lda, &zero, c_.get(), &n);
    }
  }

  [[nodiscard]] const T* c() const noexcept { return c_.get(); }

 private:
  static std::unique_ptr<T[]> make(Shape shape, std::uint32_t seed) {
    auto data = std::make_unique<T[]>(static_cast<std::size_t>(shape.size()));
    fill(View<T>(data.get(), shape), Block{{0, shape.rows}, {0, shape.cols}}, seed);
    return data;
  }

  Problem problem_;
  std::unique_ptr<T[]> a_, b_, c_;
};

}  // namespace bench
