// SPDX-License-Identifier: Apache-2.0
// Refused: gathering a sum that is still to be taken over ranks.
// expect: gather(): the tensor is a pending sum
#include "partita/partita.hpp"

using namespace partita;

template <class P>
using Tensor = DistTensor<double, P, ThreadContext>;
using Pending = Partition<TpGrid<4>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;

auto valid(const Tensor<Replicated<4>>& a) { return gather(a); }
#ifdef REFUSE
auto refused(const Tensor<Pending>& a) { return gather(a); }
#endif
