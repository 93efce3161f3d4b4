// SPDX-License-Identifier: Apache-2.0
// Refused: a partition in which one axis cuts both rows and columns.
// expect: a partition names an axis once
#include "partita/partition/policies.hpp"

using namespace partita;

using Good = Partition<Grid2D<2>, RowsOver<Row>, ColsOver<Col>>;
static_assert(Good::layout.rows.size() == 1);
#ifdef REFUSE
using Bad = Partition<Grid2D<2>, RowsOver<Row>, ColsOver<Row>>;
static_assert(Bad::layout.rows.size() == 1);
#endif
