// SPDX-License-Identifier: Apache-2.0
// Refused: one axis cuts the rows of A and the columns of B while their cuts of k differ.
// expect: matmul: no algorithm multiplies these operands
// expect: algorithm_exists_for
// expect: product<left<RowsOver<Row>, ColsOver<Col>>, right<RowsOver<>, ColsOver<Row, Col>>>
// expect: redistribute_left_to<RowsOver<>, ColsOver<Col>>
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

using B = Partition<Grid2D<2>, RowsOver<>, ColsOver<Row, Col>>;

auto valid(const Tensor<Summa2D<2>>& a, const Tensor<Summa2D<2>>& b) { return matmul(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Summa2D<2>>& a, const Tensor<B>& b) { return matmul(a, b); }
#endif
