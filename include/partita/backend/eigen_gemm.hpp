// SPDX-License-Identifier: Apache-2.0
// The local product by Eigen: C += alpha·op(A)·op(B), one instantiation for each scalar and nothing else.
#pragma once

#include <Eigen/Core>

#include "partita/backend/concepts.hpp"

namespace partita::detail {

static_assert(EIGEN_VERSION_AT_LEAST(3, 4, 0), "Partita's Eigen backend needs Eigen 3.4 or later");

/// c += alpha·a·b with a and b read as they stand or transposed. Pre: no operand is empty, none is conjugated (the
/// backend conjugates beforehand: that costs m·k, and spares twelve of sixteen instantiations).
/// Eigen's blocked product is entered below its expressions: these would instantiate its matrix-vector and small-matrix
/// products as well, which doubles the time to compile every unit that multiplies.
template <class T>
void eigen_gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
  namespace impl = Eigen::internal;
  constexpr int row = Eigen::RowMajor;
  constexpr int col = Eigen::ColMajor;
  const index_t k = a.cols();
  // A row-major C = A·B is a column-major Cᵀ = Bᵀ·Aᵀ, and a row-major block is its transpose in column-major order.
  const auto run = [&]<int OrderOfB, int OrderOfA>() {
    constexpr int any = Eigen::Dynamic;
    impl::gemm_blocking_space<col, T, T, any, any, any> blocking(c.cols, c.rows, k, 1, true);
    impl::general_matrix_matrix_product<index_t, T, OrderOfB, false, T, OrderOfA, false, col, 1>::run(
        c.cols, c.rows, k, b.stored.data, b.stored.ld, a.stored.data, a.stored.ld, c.data, 1, c.ld, alpha, blocking,
        nullptr);
  };
  if (b.transposed) {
    a.transposed ? run.template operator()<row, row>() : run.template operator()<row, col>();
  } else {
    a.transposed ? run.template operator()<col, row>() : run.template operator()<col, col>();
  }
}

}  // namespace partita::detail

/// Instantiates the product of a scalar in the unit where it stands.
#define PARTITA_INSTANTIATE_EIGEN_GEMM(T)                                                                             \
  template void partita::detail::eigen_gemm<T>(T, const partita::MatrixOperand<T>&, const partita::MatrixOperand<T>&, \
                                               partita::View<T>)
