// SPDX-License-Identifier: Apache-2.0
// Refused: operands on grids with different axes.
// expect: matmul: no algorithm multiplies these operands
// expect: put_both_on_one_grid<Grid<Axis<Row, 2>, Axis<Col, 2>>, Grid<Axis<Tp, 4>>>
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

auto valid(const Tensor<Summa2D<2>>& a, const Tensor<Summa2D<2>>& b) { return matmul(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Summa2D<2>>& a, const Tensor<RowShard<4>>& b) { return matmul(a, b); }
#endif
