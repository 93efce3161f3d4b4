// SPDX-License-Identifier: Apache-2.0
// Refused: a partition over an axis that its grid does not have.
// expect: a partition names only axes of its grid
#include "partita/partition/policies.hpp"

using namespace partita;

using Good = Partition<Grid2D<2>, RowsOver<Row>>;
static_assert(Good::layout.cols.size() == 0);
#ifdef REFUSE
using Bad = Partition<Grid2D<2>, RowsOver<Depth>>;
static_assert(Bad::layout.cols.size() == 0);
#endif
