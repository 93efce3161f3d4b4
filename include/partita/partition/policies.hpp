// SPDX-License-Identifier: Apache-2.0
// The named policies: aliases of Partition. A new one is one more alias, here or in a user's own code.
#pragma once

#include "partita/partition/partition.hpp"

namespace partita {

template <int P = dynamic>
using TpGrid = Grid<Axis<Tp, P>>;
template <int R = dynamic, int C = R>
using Grid2D = Grid<Axis<Row, R>, Axis<Col, C>>;
template <int Q = dynamic, int D = dynamic>
using Grid25D = Grid<Axis<Depth, D>, Axis<Row, Q>, Axis<Col, Q>>;

/// Every rank holds the whole matrix.
template <int P = dynamic>
using Replicated = Partition<TpGrid<P>>;
/// Columns cut over the ranks: [K, N/P], the weight of a column-parallel linear layer.
template <int P = dynamic>
using ColumnShard = Partition<TpGrid<P>, RowsOver<>, ColsOver<Tp>>;
/// Rows cut over the ranks: [K/P, N], the weight of a row-parallel linear layer.
template <int P = dynamic>
using RowShard = Partition<TpGrid<P>, RowsOver<Tp>>;

/// Rows over Row, columns over Col of an R×C grid (SUMMA: van de Geijn and Watts, 1997).
template <int R = dynamic, int C = R>
using Summa2D = Partition<Grid2D<R, C>, RowsOver<Row>, ColsOver<Col>>;

/// Activations on a Depth×Row×Col grid of d·q·q ranks: tokens over Depth and Row, features over Col.
template <int Q = dynamic, int D = dynamic>
using Summa25D = Partition<Grid25D<Q, D>, RowsOver<Depth, Row>, ColsOver<Col>>;
/// Weights on the same grid: cut over Row and Col, replicated over Depth.
template <int Q = dynamic, int D = dynamic>
using Summa25DWeight = Partition<Grid25D<Q, D>, RowsOver<Row>, ColsOver<Col>>;

/// The operands of classical 2.5D (Solomonik and Demmel, 2011): each depth layer multiplies 1/d of K.
template <int Q = dynamic, int D = dynamic>
using SplitKLeft = Partition<Grid25D<Q, D>, RowsOver<Row>, ColsOver<Depth, Col>>;
template <int Q = dynamic, int D = dynamic>
using SplitKRight = Partition<Grid25D<Q, D>, RowsOver<Depth, Row>, ColsOver<Col>>;

}  // namespace partita
