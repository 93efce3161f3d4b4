// SPDX-License-Identifier: Apache-2.0
// A strategy: the partitions that the layers of a block are built from. Any four that meet make one.
#pragma once

#include "partita/nn/partitions.hpp"
#include "partita/partition/policies.hpp"

namespace partita {

/// Stream: of the activations between blocks. Inner: of those inside attention and the feed-forward layer, whose
/// columns are heads or hidden features. Enter and Leave: of the weights that lead from Stream to Inner, and back.
template <class StreamP, class InnerP, class EnterP, class LeaveP>
struct Strategy {
  using grid_type = typename StreamP::grid_type;
  using Stream = StreamP;
  using Inner = InnerP;
  using Enter = EnterP;
  using Leave = LeaveP;
};

/// Megatron's tensor parallelism (Shoeybi et al., 2019): one sum forward and one backward for each pair of layers.
template <int P = dynamic>
using ColumnRow = Strategy<Replicated<P>, ColumnShard<P>, ColumnShard<P>, RowShard<P>>;
/// With sequence parallelism (Korthikanti et al., 2022): the stream's tokens are cut over the same ranks.
template <int P = dynamic>
using SequenceParallel = Strategy<RowShard<P>, ColumnShard<P>, ColumnShard<P>, RowShard<P>>;
/// Activations and weights cut both ways (Xu et al., 2021).
template <int R = dynamic, int C = R>
using TwoDimensional = Strategy<Summa2D<R, C>, Summa2D<R, C>, Summa2D<R, C>, Summa2D<R, C>>;
/// The same in each depth layer, on other tokens (Wang et al., 2021); gradients are summed over the depth.
template <int Q = dynamic, int D = dynamic>
using TwoAndAHalfDimensional = Strategy<Summa25D<Q, D>, Summa25D<Q, D>, Summa25DWeight<Q, D>, Summa25DWeight<Q, D>>;

}  // namespace partita
