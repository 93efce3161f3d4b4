// SPDX-License-Identifier: Apache-2.0
// Refused: a grid that names an axis twice.
// expect: an axis occurs once in a grid
#include "partita/grid/axis.hpp"

using namespace partita;

static_assert(Grid<Axis<Row, 2>, Axis<Col, 2>>::axis_count == 2);
#ifdef REFUSE
static_assert(Grid<Axis<Row, 2>, Axis<Row, 2>>::axis_count == 2);
#endif
