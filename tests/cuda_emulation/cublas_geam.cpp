// SPDX-License-Identifier: Apache-2.0
// Sums of two matrices: C = alpha·op(A) + beta·op(B). A scalar of 0 does not read its operand, and C may be an operand
// that is not transposed.
#include <algorithm>
#include <type_traits>

#include "cuda_emulation/cublas_handle.hpp"

namespace partita::cuda_emulation {
namespace {

template <class T>
T read(const T* data, std::int64_t i, std::int64_t j, std::int64_t ld, cublasOperation_t op) {
  T x = op == CUBLAS_OP_N ? data[i + j * ld] : data[j + i * ld];
  if constexpr (!std::is_floating_point_v<T>) {
    if (op == CUBLAS_OP_C) x = std::conj(x);
  }
  return x;
}

template <class T>
cublasStatus_t geam(const char* name, cudaDataType type, cublasHandle_t handle, cublasOperation_t op_a,
                    cublasOperation_t op_b, std::int64_t rows, std::int64_t cols, const void* alpha_, const void* a_,
                    std::int64_t lda, const void* beta_, const void* b_, std::int64_t ldb, void* c_, std::int64_t ldc) {
  return enter<cublasStatus_t>(name, [&](Machine& m, Lock&) {
    if (!usable(m, handle, name)) return CUBLAS_STATUS_NOT_INITIALIZED;
    Operation op;
    op.name = name;
    op.stream = m.stream_of(handle->stream, name);
    if (op.stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
    const std::int64_t least_a = std::max<std::int64_t>(1, op_a == CUBLAS_OP_N ? rows : cols);
    const std::int64_t least_b = std::max<std::int64_t>(1, op_b == CUBLAS_OP_N ? rows : cols);
    if (rows < 0 || cols < 0 || lda < least_a || ldb < least_b || ldc < std::max<std::int64_t>(1, rows)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (rows == 0 || cols == 0) return CUBLAS_STATUS_SUCCESS;
    const T alpha = *static_cast<const T*>(alpha_);
    const T beta = *static_cast<const T*>(beta_);
    const Rectangle out = stored(c_, type, rows, cols, ldc);
    const auto declare = [&](T factor, const void* data, std::int64_t ld, cublasOperation_t how) {
      if (factor == T(0)) return true;
      const Rectangle r = how == CUBLAS_OP_N ? stored(data, type, rows, cols, ld) : stored(data, type, cols, rows, ld);
      op.accesses.push_back(reads(r));
      return !overlap(r, out) || (data == c_ && ld == ldc && how == CUBLAS_OP_N);
    };
    const bool apart = declare(alpha, a_, lda, op_a);
    if (!declare(beta, b_, ldb, op_b) || !apart) {
      m.report(Finding::misuse, std::string(name) + " on " + op.stream->label + ": the result overlaps an operand");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    op.accesses.push_back(writes(out));
    if (!m.admit(op.stream->device, name, op.accesses)) return CUBLAS_STATUS_INVALID_VALUE;
    const T* a = m.memory.bytes_of(static_cast<const T*>(a_));
    const T* b = m.memory.bytes_of(static_cast<const T*>(b_));
    T* c = m.memory.bytes_of(static_cast<T*>(c_));
    op.work = [=](Lock& lock) {
      unlocked(lock, [=] {
        for (std::int64_t j = 0; j < cols; ++j) {
          for (std::int64_t i = 0; i < rows; ++i) {
            T x(0);
            if (alpha != T(0)) x += alpha * read(a, i, j, lda, op_a);
            if (beta != T(0)) x += beta * read(b, i, j, ldb, op_b);
            c[i + j * ldc] = x;
          }
        }
      });
    };
    m.enqueue(std::move(op));
    return CUBLAS_STATUS_SUCCESS;
  });
}

}  // namespace
}  // namespace partita::cuda_emulation

using namespace partita::cuda_emulation;

cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                           const float* alpha, const float* a, int lda, const float* beta, const float* b, int ldb,
                           float* c, int ldc) {
  return geam<float>("cublasSgeam", CUDA_R_32F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}

cublasStatus_t cublasDgeam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                           const double* alpha, const double* a, int lda, const double* beta, const double* b, int ldb,
                           double* c, int ldc) {
  return geam<double>("cublasDgeam", CUDA_R_64F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}

cublasStatus_t cublasCgeam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                           const cuComplex* alpha, const cuComplex* a, int lda, const cuComplex* beta,
                           const cuComplex* b, int ldb, cuComplex* c, int ldc) {
  return geam<std::complex<float>>("cublasCgeam", CUDA_C_32F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c,
                                   ldc);
}

cublasStatus_t cublasZgeam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                           const cuDoubleComplex* alpha, const cuDoubleComplex* a, int lda, const cuDoubleComplex* beta,
                           const cuDoubleComplex* b, int ldb, cuDoubleComplex* c, int ldc) {
  return geam<std::complex<double>>("cublasZgeam", CUDA_C_64F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c,
                                    ldc);
}

cublasStatus_t cublasSgeam_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                              int64_t n, const float* alpha, const float* a, int64_t lda, const float* beta,
                              const float* b, int64_t ldb, float* c, int64_t ldc) {
  return geam<float>("cublasSgeam_64", CUDA_R_32F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}

cublasStatus_t cublasDgeam_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                              int64_t n, const double* alpha, const double* a, int64_t lda, const double* beta,
                              const double* b, int64_t ldb, double* c, int64_t ldc) {
  return geam<double>("cublasDgeam_64", CUDA_R_64F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}

cublasStatus_t cublasCgeam_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                              int64_t n, const cuComplex* alpha, const cuComplex* a, int64_t lda, const cuComplex* beta,
                              const cuComplex* b, int64_t ldb, cuComplex* c, int64_t ldc) {
  return geam<std::complex<float>>("cublasCgeam_64", CUDA_C_32F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb,
                                   c, ldc);
}

cublasStatus_t cublasZgeam_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m,
                              int64_t n, const cuDoubleComplex* alpha, const cuDoubleComplex* a, int64_t lda,
                              const cuDoubleComplex* beta, const cuDoubleComplex* b, int64_t ldb, cuDoubleComplex* c,
                              int64_t ldc) {
  return geam<std::complex<double>>("cublasZgeam_64", CUDA_C_64F, handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb,
                                    c, ldc);
}
