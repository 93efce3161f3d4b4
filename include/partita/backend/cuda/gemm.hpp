// SPDX-License-Identifier: Apache-2.0
// Row-major products and sums by cuBLAS, which is column-major: a row-major block is the transpose of a column-major
// one, so C = A·B is Cᵀ = Bᵀ·Aᵀ, and nothing is copied.
#pragma once

#include <algorithm>
#include <complex>
#include <concepts>

#include "partita/backend/concepts.hpp"
#include "partita/cuda/error.hpp"

namespace partita::detail {

template <class T>
constexpr cudaDataType cuda_type() {
  if constexpr (std::same_as<T, half>) return CUDA_R_16F;
  if constexpr (std::same_as<T, bfloat16>) return CUDA_R_16BF;
  if constexpr (std::same_as<T, float>) return CUDA_R_32F;
  if constexpr (std::same_as<T, double>) return CUDA_R_64F;
  if constexpr (std::same_as<T, std::complex<float>>) return CUDA_C_32F;
  if constexpr (std::same_as<T, std::complex<double>>) return CUDA_C_64F;
}

/// fp32 accumulates 16-bit data; TF32 only where it was asked for.
template <class T>
constexpr cublasComputeType_t cuda_compute(bool tf32) {
  if constexpr (std::same_as<accumulate_t<T>, double> || std::same_as<T, std::complex<double>>) {
    return CUBLAS_COMPUTE_64F;
  } else {
    const bool whole = std::same_as<T, float> || std::same_as<T, std::complex<float>>;
    return tf32 && whole ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
}

/// The leading dimension as cuBLAS wants it, which a single row does not say.
template <class T>
[[nodiscard]] constexpr index_t cuda_ld(View<T> v) noexcept {
  return std::max<index_t>(v.rows == 1 ? v.cols : v.ld, 1);
}

/// How cuBLAS reads the operand. Pre: what is conjugated is transposed too.
template <class T>
[[nodiscard]] constexpr cublasOperation_t cuda_op(const MatrixOperand<T>& x) noexcept {
  if (!x.transposed) return CUBLAS_OP_N;
  return x.conjugated && is_complex_v<T> ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// c += alpha·a·b on the handle's stream. Pre: as cuda_op, and no dimension is 0.
template <class T>
void cuda_gemm(cublasHandle_t handle, bool tf32, accumulate_t<T> alpha, const MatrixOperand<T>& a,
               const MatrixOperand<T>& b, View<accumulate_t<T>> c) {
  using A = accumulate_t<T>;
  const A one(1);
  cublas_check(cublasGemmEx_64(handle, cuda_op(b), cuda_op(a), c.cols, c.rows, a.cols(), &alpha, b.stored.data,
                               cuda_type<T>(), cuda_ld(b.stored), a.stored.data, cuda_type<T>(), cuda_ld(a.stored),
                               &one, c.data, cuda_type<A>(), cuda_ld(c), cuda_compute<T>(tf32), CUBLAS_GEMM_DEFAULT),
               "cublasGemmEx");
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

/// z = the conjugate transpose of x. Pre: z has x's shape transposed, and is not empty.
template <class T>
void cuda_conjugate_transpose(cublasHandle_t handle, View<const T> x, View<T> z) {
  const T one(1);
  const T zero(0);
  cublas_check(geam(handle, CUBLAS_OP_C, CUBLAS_OP_N, z.cols, z.rows, &one, x.data, cuda_ld(x), &zero, z.data,
                    cuda_ld(z), z.data, cuda_ld(z)),
               "cublasXgeam");
}

}  // namespace partita::detail
