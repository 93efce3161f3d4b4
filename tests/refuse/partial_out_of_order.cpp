// SPDX-License-Identifier: Apache-2.0
// Refused: the axes of PartialOver are a set, written in grid order.
// expect: PartialOver is a set: name its axes in grid order
#include "partita/partition/policies.hpp"

using namespace partita;

template <class... Axes>
using Pending = Partition<Grid25D<2, 2>, RowsOver<>, ColsOver<>, PartialOver<Axes...>>;

static_assert(Pending<Depth, Col>::layout.partial.size() == 2);
#ifdef REFUSE
static_assert(Pending<Col, Depth>::layout.partial.size() == 2);
#endif
