// SPDX-License-Identifier: Apache-2.0
// Refused: the right operand is a sum that is still to be taken over ranks; also into a given result.
// expect: matmul: no algorithm multiplies these operands
// expect: product<left<RowsOver<Tp>, ColsOver<>>, right<RowsOver<>, ColsOver<>, PartialOver<Tp>>>
// expect: all_reduce_right_first
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;

using Pending = Partition<TpGrid<4>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;

void valid(Tensor<RowShard<4>>& c, const Tensor<RowShard<4>>& a, const Tensor<Replicated<4>>& b) {
  matmul_into(c, a, b);
}
#ifdef REFUSE
void refused(Tensor<RowShard<4>>& c, const Tensor<RowShard<4>>& a, const Tensor<Pending>& b) { matmul_into(c, a, b); }
#endif
