// SPDX-License-Identifier: Apache-2.0
// Refused: operands on grids with the same axes and fixed extents that differ; dynamic ones meet any.
// expect: matmul: no algorithm multiplies these operands
// expect: put_both_on_one_grid<Grid<Axis<Row, 2>, Axis<Col, 3>>, Grid<Axis<Row, 3>, Axis<Col, 2>>>
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

auto valid(const Tensor<Summa2D<2, 3>>& a, const Tensor<Summa2D<>>& b) { return matmul(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Summa2D<2, 3>>& a, const Tensor<Summa2D<3, 2>>& b) { return matmul(a, b); }
#endif
