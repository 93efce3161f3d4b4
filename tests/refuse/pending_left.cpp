// SPDX-License-Identifier: Apache-2.0
// Refused: the left operand is a sum that is still to be taken over ranks.
// expect: matmul: no algorithm multiplies these operands
// expect: product<left<RowsOver<>, ColsOver<>, PartialOver<Tp>>, right<RowsOver<>, ColsOver<Tp>>>
// expect: all_reduce_left_first
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

using Pending = Partition<TpGrid<4>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;

auto valid(const Tensor<Replicated<4>>& a, const Tensor<ColumnShard<4>>& b) { return matmul(a, b); }
#ifdef REFUSE
auto refused(const Tensor<Pending>& a, const Tensor<ColumnShard<4>>& b) { return matmul(a, b); }
#endif
