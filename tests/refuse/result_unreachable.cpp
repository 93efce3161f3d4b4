// SPDX-License-Identifier: Apache-2.0
// Refused: a result that the product of these partitions does not give; the text names one that it gives.
// expect: matmul: no algorithm multiplies these operands
// expect: product_as<left<RowsOver<>, ColsOver<>>, right<RowsOver<>, ColsOver<Tp>>, result<RowsOver<Tp>, ColsOver<>>>
// expect: ask_for_and_redistribute<RowsOver<>, ColsOver<Tp>>
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

auto valid(const Tensor<Replicated<4>>& a, const Tensor<ColumnShard<4>>& b) { return matmul<ColumnShard<4>>(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Replicated<4>>& a, const Tensor<ColumnShard<4>>& b) { return matmul<RowShard<4>>(a, b); }
#endif
