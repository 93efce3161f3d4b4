// SPDX-License-Identifier: Apache-2.0
// BlasBackend: products by the BLAS that the program links. Any will do: OpenBLAS, BLIS, MKL, the reference.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "partita/backend/cpu.hpp"
#include "partita/base/error.hpp"

namespace partita::detail {

// The integers of the BLAS: 32 bits wide unless it was built otherwise (partita::blas defines the macro where CMake
// found such a one). No name or type outside of this header depends on it.
#ifdef PARTITA_BLAS_INT64
using blas_int = std::int64_t;
#else
using blas_int = std::int32_t;
#endif

}  // namespace partita::detail

// The Fortran interface, which every BLAS has: column-major matrices, all arguments by address. The functions have
// names of our own, so that no other header's declaration of theirs is in the way.
#define PARTITA_TEXT(x) #x
#define PARTITA_SYMBOL_WITH(prefix, name) __asm__(PARTITA_TEXT(prefix) #name)
#define PARTITA_SYMBOL(name) PARTITA_SYMBOL_WITH(__USER_LABEL_PREFIX__, name)
#define PARTITA_DECLARE_GEMM(name, T)                                                                              \
  void partita_##name(const char* trans_a, const char* trans_b, const partita::detail::blas_int* m,                \
                      const partita::detail::blas_int* n, const partita::detail::blas_int* k, const T* alpha,      \
                      const T* a, const partita::detail::blas_int* lda, const T* b,                                \
                      const partita::detail::blas_int* ldb, const T* beta, T* c, const partita::detail::blas_int*) \
      PARTITA_SYMBOL(name##_)
extern "C" {
PARTITA_DECLARE_GEMM(sgemm, float);
PARTITA_DECLARE_GEMM(dgemm, double);
PARTITA_DECLARE_GEMM(cgemm, std::complex<float>);
PARTITA_DECLARE_GEMM(zgemm, std::complex<double>);
// How many threads a product uses: weak, since each library has only its own.
[[gnu::weak]] void partita_openblas_set_threads(int) PARTITA_SYMBOL(openblas_set_num_threads);
[[gnu::weak]] int partita_openblas_get_threads() PARTITA_SYMBOL(openblas_get_num_threads);
[[gnu::weak]] void partita_blis_set_threads(std::int64_t) PARTITA_SYMBOL(bli_thread_set_num_threads);
[[gnu::weak]] int partita_mkl_set_threads(int) PARTITA_SYMBOL(MKL_Set_Num_Threads_Local);
}
#undef PARTITA_DECLARE_GEMM
#undef PARTITA_SYMBOL
#undef PARTITA_SYMBOL_WITH
#undef PARTITA_TEXT

namespace partita {
namespace detail {

inline void call_gemm(const char* ta, const char* tb, blas_int m, blas_int n, blas_int k, float alpha, const float* a,
                      blas_int lda, const float* b, blas_int ldb, float beta, float* c, blas_int ldc) {
  partita_sgemm(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
inline void call_gemm(const char* ta, const char* tb, blas_int m, blas_int n, blas_int k, double alpha, const double* a,
                      blas_int lda, const double* b, blas_int ldb, double beta, double* c, blas_int ldc) {
  partita_dgemm(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
inline void call_gemm(const char* ta, const char* tb, blas_int m, blas_int n, blas_int k, std::complex<float> alpha,
                      const std::complex<float>* a, blas_int lda, const std::complex<float>* b, blas_int ldb,
                      std::complex<float> beta, std::complex<float>* c, blas_int ldc) {
  partita_cgemm(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
inline void call_gemm(const char* ta, const char* tb, blas_int m, blas_int n, blas_int k, std::complex<double> alpha,
                      const std::complex<double>* a, blas_int lda, const std::complex<double>* b, blas_int ldb,
                      std::complex<double> beta, std::complex<double>* c, blas_int ldc) {
  partita_zgemm(ta, tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

/// c += alpha·a·b. Sizes and leading dimensions above `limit` (what the BLAS's integers hold) are taken in parts, down
/// to single rows. Pre: no operand is empty or conjugated.
template <class T>
void blas_gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c,
               index_t limit = std::numeric_limits<blas_int>::max()) {
  Shape step{limit, limit};
  index_t step_k = limit;
  if (c.ld > limit) step.rows = 1;
  if (a.stored.ld > limit) (a.transposed ? step_k : step.rows) = 1;
  if (b.stored.ld > limit) (b.transposed ? step.cols : step_k) = 1;
  const auto narrow = [](index_t x) { return static_cast<blas_int>(x); };
  const auto stride = [&](const auto& view) { return narrow(view.rows == 1 ? view.cols : view.ld); };
  for (index_t i = 0; i < c.rows; i += step.rows) {
    const Range rows{i, std::min(i + step.rows, c.rows)};
    for (index_t j = 0; j < c.cols; j += step.cols) {
      const Range cols{j, std::min(j + step.cols, c.cols)};
      const View<T> out = c.sub({rows, cols});
      for (index_t l = 0; l < a.cols(); l += step_k) {
        const Range k{l, std::min(l + step_k, a.cols())};
        const MatrixOperand<T> left = a.sub({rows, k});
        const MatrixOperand<T> right = b.sub({k, cols});
        // A row-major C = A·B is a column-major Cᵀ = Bᵀ·Aᵀ, and a row-major block its transpose in column-major order.
        call_gemm(right.transposed ? "T" : "N", left.transposed ? "T" : "N", narrow(cols.size()), narrow(rows.size()),
                  narrow(k.size()), alpha, right.stored.data, stride(right.stored), left.stored.data,
                  stride(left.stored), T(1), out.data, stride(out));
      }
    }
  }
}

/// Whether each thread may have a setting of its own, as in MKL and later versions of BLIS.
inline bool blas_threads_are_of_thread() noexcept {
  return partita_mkl_set_threads != nullptr || partita_blis_set_threads != nullptr;
}

/// Tells the BLAS how many threads a product may use, of this thread or of all; false where it offers no way that is
/// known here.
inline bool set_blas_threads(int threads) {
  if (blas_threads_are_of_thread()) {
    if (partita_mkl_set_threads != nullptr) {
      partita_mkl_set_threads(threads);
    } else {
      partita_blis_set_threads(threads);
    }
    return true;
  }
  if (partita_openblas_set_threads == nullptr || partita_openblas_get_threads == nullptr) return false;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (partita_openblas_get_threads() != threads) partita_openblas_set_threads(threads);
  return true;
}

/// The number that the last kernel on this thread has set.
inline int& told_blas_threads() noexcept {
  static thread_local int told = 0;
  return told;
}

}  // namespace detail

/// The linked BLAS, with so many threads for each product of a rank. OpenBLAS has one setting for the whole process,
/// which the last kernel made decides. MKL and later versions of BLIS have one for each thread; a kernel sets that of
/// the thread which makes it, and of any other on which it multiplies.
/// ArgumentError for fewer than 1 thread, or for more than 1 where the BLAS offers no known way.
class BlasKernel {
 public:
  using any_thread = BlasKernel;

  explicit BlasKernel(int threads = 1) : threads_(threads) {
    const bool set = threads >= 1 && detail::set_blas_threads(threads);
    if (set) detail::told_blas_threads() = threads;
    if (threads == 1 || set) return;
    throw ArgumentError("ArgumentError: BlasKernel with " + std::to_string(threads) + " threads; " +
                        (threads < 1 ? "it needs at least 1"
                                     : "the linked BLAS is not OpenBLAS, BLIS or MKL: use 1, and its own environment "
                                       "variable"));
  }

  template <class T>
  void gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
    if (detail::blas_threads_are_of_thread() && std::exchange(detail::told_blas_threads(), threads_) != threads_) {
      detail::set_blas_threads(threads_);
    }
    detail::blas_gemm<T>(alpha, a, b, c);
  }

 private:
  int threads_;
};

/// Products by the linked BLAS, one thread for each rank unless asked: BlasBackend(BlasKernel(2)).
using BlasBackend = CpuBackend<BlasKernel>;
static_assert(Backend<BlasBackend>);

}  // namespace partita
