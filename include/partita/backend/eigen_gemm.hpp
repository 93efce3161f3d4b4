// SPDX-License-Identifier: Apache-2.0
// The local product by Eigen: C += alpha·op(A)·op(B), one instantiation for each scalar and nothing else.
#pragma once

#include <Eigen/Core>

#include "partita/backend/concepts.hpp"

namespace partita::detail {

template <class T, int Order>
using EigenBlock =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// c += alpha·a·b with a and b read as they stand or transposed. Pre: no operand is empty, none is conjugated (the
/// backend conjugates beforehand: that costs m·k, and spares nine of twelve instantiations).
template <class T>
void eigen_gemm(T alpha, const MatrixOperand<T>& a, const MatrixOperand<T>& b, View<T> c) {
  using Out = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Out, Eigen::Unaligned, Eigen::OuterStride<>> out(c.data, c.rows, c.cols, Eigen::OuterStride<>(c.ld));
  // A row-major block that is read transposed is a column-major matrix of the logical shape.
  const auto with = []<int Order>(const MatrixOperand<T>& x) {
    return EigenBlock<T, Order>(x.stored.data, x.rows(), x.cols(), Eigen::OuterStride<>(x.stored.ld));
  };
  const auto product = [&](const auto& left, const auto& right) { out.noalias() += alpha * (left * right); };
  constexpr int row = Eigen::RowMajor;
  constexpr int col = Eigen::ColMajor;
  if (a.transposed) {
    const auto left = with.template operator()<col>(a);
    b.transposed ? product(left, with.template operator()<col>(b)) : product(left, with.template operator()<row>(b));
  } else {
    const auto left = with.template operator()<row>(a);
    b.transposed ? product(left, with.template operator()<col>(b)) : product(left, with.template operator()<row>(b));
  }
}

}  // namespace partita::detail

/// Instantiates the product of a scalar in the unit where it stands.
#define PARTITA_INSTANTIATE_EIGEN_GEMM(T)                                                                             \
  template void partita::detail::eigen_gemm<T>(T, const partita::MatrixOperand<T>&, const partita::MatrixOperand<T>&, \
                                               partita::View<T>)
