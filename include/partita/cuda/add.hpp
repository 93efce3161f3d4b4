// SPDX-License-Identifier: Apache-2.0
// Sums of two row-major blocks by cuBLAS: a row-major block is the transpose of a column-major one.
#pragma once

#include <algorithm>
#include <complex>
#include <concepts>

#include "partita/base/view.hpp"
#include "partita/cuda/error.hpp"

namespace partita::detail {

/// The leading dimension as cuBLAS wants it, which a single row does not say.
template <class T>
[[nodiscard]] constexpr index_t cuda_ld(View<T> v) noexcept {
  return std::max<index_t>(v.rows == 1 ? v.cols : v.ld, 1);
}

inline cublasStatus_t geam(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, index_t m, index_t n,
                           const float* alpha, const float* x, index_t ldx, const float* beta, const float* y,
                           index_t ldy, float* z, index_t ldz) {
  return cublasSgeam_64(h, a, b, m, n, alpha, x, ldx, beta, y, ldy, z, ldz);
}
inline cublasStatus_t geam(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, index_t m, index_t n,
                           const double* alpha, const double* x, index_t ldx, const double* beta, const double* y,
                           index_t ldy, double* z, index_t ldz) {
  return cublasDgeam_64(h, a, b, m, n, alpha, x, ldx, beta, y, ldy, z, ldz);
}
template <class T>
cublasStatus_t geam(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, index_t m, index_t n,
                    const std::complex<T>* alpha, const std::complex<T>* x, index_t ldx, const std::complex<T>* beta,
                    const std::complex<T>* y, index_t ldy, std::complex<T>* z, index_t ldz) {
  if constexpr (std::same_as<T, float>) {
    const auto in = [](const std::complex<T>* p) { return reinterpret_cast<const cuComplex*>(p); };
    return cublasCgeam_64(h, a, b, m, n, in(alpha), in(x), ldx, in(beta), in(y), ldy, reinterpret_cast<cuComplex*>(z),
                          ldz);
  } else {
    const auto in = [](const std::complex<T>* p) { return reinterpret_cast<const cuDoubleComplex*>(p); };
    return cublasZgeam_64(h, a, b, m, n, in(alpha), in(x), ldx, in(beta), in(y), ldy,
                          reinterpret_cast<cuDoubleComplex*>(z), ldz);
  }
}

/// z = beta·z + alpha·x. A factor of 0 does not read. Pre: the shapes are the same, and not empty.
template <class T>
void cuda_add(cublasHandle_t handle, T alpha, View<const T> x, T beta, View<T> z) {
  cublas_check(geam(handle, CUBLAS_OP_N, CUBLAS_OP_N, z.cols, z.rows, &beta, z.data, cuda_ld(z), &alpha, x.data,
                    cuda_ld(x), z.data, cuda_ld(z)),
               "cublasXgeam");
}

}  // namespace partita::detail
