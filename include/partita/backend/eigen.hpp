// SPDX-License-Identifier: Apache-2.0
// EigenBackend: products by Eigen, which needs nothing else and has one compute thread.
#pragma once

#include <complex>

#include "partita/backend/cpu.hpp"

#ifdef PARTITA_COMPILED_KERNELS
namespace partita::detail {
// Defined in backend/eigen_gemm.hpp and instantiated in the library partita::kernels.
template <class T>
void eigen_gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c);
extern template void eigen_gemm(float, const MatrixOperand<float>&, const MatrixOperand<float>&, View<float>);
extern template void eigen_gemm(double, const MatrixOperand<double>&, const MatrixOperand<double>&, View<double>);
extern template void eigen_gemm(std::complex<float>, const MatrixOperand<std::complex<float>>&,
                                const MatrixOperand<std::complex<float>>&, View<std::complex<float>>);
extern template void eigen_gemm(std::complex<double>, const MatrixOperand<std::complex<double>>&,
                                const MatrixOperand<std::complex<double>>&, View<std::complex<double>>);
}  // namespace partita::detail
#else
#include "partita/backend/eigen_gemm.hpp"
#endif

namespace partita {

/// Eigen's blocked product, entered below its expressions.
struct EigenKernel {
  using any_thread = EigenKernel;

  template <class T>
  void gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
    detail::eigen_gemm<T>(alpha, a, b, c);
  }
};

using EigenBackend = CpuBackend<EigenKernel>;
static_assert(Backend<EigenBackend>);

}  // namespace partita
