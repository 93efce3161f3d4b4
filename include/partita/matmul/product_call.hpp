// SPDX-License-Identifier: Apache-2.0
// What a product works on, on one rank.
#pragma once

#include "partita/backend/concepts.hpp"
#include "partita/grid/process_grid.hpp"

namespace partita {

/// One rank's part of C = alpha·op(A)·op(B) + beta·C. `a` and `b` hold the global rectangles `a_block` and `b_block` of
/// op(A) and op(B); `c` holds the schedule's result_block(). Out is T, or fp32 for a pending sum of 16-bit data.
template <class T, class Out, class Ctx>
struct ProductCall {
  ProcessGrid<Ctx>* grid;
  MatrixOperand<T> a;
  MatrixOperand<T> b;
  Block a_block;
  Block b_block;
  View<Out> c;
  accumulate_t<T> alpha;
  accumulate_t<T> beta;
};

}  // namespace partita
