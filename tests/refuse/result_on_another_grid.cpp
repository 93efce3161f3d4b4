// SPDX-License-Identifier: Apache-2.0
// Refused: a result asked for on a grid with other axes.
// expect: matmul: no algorithm multiplies these operands
// expect: ask_for_a_result_on_the_operands_grid<Grid<Axis<Row, 2>, Axis<Col, 2>>, Grid<Axis<Tp, 4>>>
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

auto valid(const Tensor<Summa2D<2>>& a, const Tensor<Summa2D<2>>& b) { return matmul<Summa2D<>>(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Summa2D<2>>& a, const Tensor<Summa2D<2>>& b) { return matmul<RowShard<4>>(a, b); }
#endif
