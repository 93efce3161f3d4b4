// SPDX-License-Identifier: Apache-2.0
// Row-major products by cuBLAS, which is column-major: a row-major block is the transpose of a column-major
// one, so C = A·B is Cᵀ = Bᵀ·Aᵀ, and nothing is copied.
#pragma once

#include <complex>
#include <concepts>

#include "partita/backend/concepts.hpp"
#include "partita/cuda/add.hpp"
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
