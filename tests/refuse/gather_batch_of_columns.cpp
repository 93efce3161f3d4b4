// SPDX-License-Identifier: Apache-2.0
// Refused: gathering a batch into a partition with other axes over the columns.
// expect: gather_batch(): the target is the tensor's partition without the last axes over its rows
// expect: batch_operation_exists
// expect: from_partition<RowsOver<Row>, ColsOver<Col>>
// expect: to_partition<RowsOver<>, ColsOver<>>
#include "partita/nn/batch.hpp"
#include "partita/partita.hpp"

using namespace partita;

using Whole = Partition<Grid2D<2>, RowsOver<>, ColsOver<Col>>;
using Nothing = Partition<Grid2D<2>>;

auto valid(const DistTensor<double, Summa2D<2>, ThreadContext>& x) { return gather_batch<Whole>(x); }
#ifdef REFUSE
auto refused(const DistTensor<double, Summa2D<2>, ThreadContext>& x) { return gather_batch<Nothing>(x); }
#endif
