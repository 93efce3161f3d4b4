// SPDX-License-Identifier: Apache-2.0
// The multiplication table. Each line: how the operands are stored, in which form they are multiplied (N as stored,
// T transposed), which algorithm that is, and the partition of the result.

#include <doctest/doctest.h>

#include <type_traits>

#include "partita/matmul/rule.hpp"
#include "partita/partition/policies.hpp"

using namespace partita;

namespace {

template <class P>
using T = transposed_t<P>;

template <class Left, class Right, class Result>
constexpr bool gives(Algorithm algorithm) {
  using Rule = MatmulRule<Left, Right>;
  return Rule::plan.plan.algorithm == algorithm && std::is_same_v<typename Rule::result, Result>;
}
template <class Left, class Right>
constexpr bool refused() {
  return !MatmulRule<Left, Right>::valid;
}
/// The result is reachable when it is asked for.
template <class Left, class Right, class Result>
constexpr bool can_give(Algorithm algorithm) {
  using Rule = DerivedRule<Left, Right, Result>;
  return Rule::plan.plan.algorithm == algorithm && std::is_same_v<typename Rule::result, Result>;
}

constexpr auto local = Algorithm::local;
constexpr auto stationary_a = Algorithm::stationary_a;
constexpr auto stationary_b = Algorithm::stationary_b;
constexpr auto stationary_c = Algorithm::stationary_c;

// ---- one dimension, P ranks ------------------------------------------------------------------------------------
using All = Replicated<4>;
using Column = ColumnShard<4>;
using RowS = RowShard<4>;

static_assert(std::is_same_v<T<Column>, RowS>);  // the transpose of a column-cut matrix is cut by rows

// Replicated with Replicated: every rank multiplies all of it.
static_assert(gives<All, All, All>(local) && gives<All, T<All>, All>(local));
static_assert(gives<T<All>, All, All>(local) && gives<T<All>, T<All>, All>(local));
// Replicated with ColumnShard
static_assert(gives<All, Column, Column>(local));     // NN  column-parallel linear, forward
static_assert(gives<All, T<Column>, All>(local));     // NT  A sliced, then all_reduce(Tp)
static_assert(gives<T<All>, Column, Column>(local));  // TN
static_assert(gives<T<All>, T<Column>, All>(local));  // TT  A sliced, then all_reduce(Tp)
// ColumnShard with RowShard
static_assert(gives<Column, RowS, All>(local));        // NN  row-parallel linear: all_reduce(Tp)
static_assert(can_give<Column, RowS, RowS>(local));    //     sequence parallel: reduce_scatter(Tp)
static_assert(can_give<Column, RowS, Column>(local));  //     reduce_scatter of columns
static_assert(can_give<Column, RowS, Partition<TpGrid<4>, RowsOver<>, ColsOver<>, PartialOver<Tp>>>(local));  // kept
static_assert(gives<Column, T<RowS>, Column>(stationary_c));     // NT  A's k-panels along Tp
static_assert(gives<T<Column>, RowS, RowS>(stationary_c));       // TN  B's k-panels along Tp
static_assert(gives<T<Column>, T<RowS>, Column>(stationary_b));  // TT  A's m-panels along Tp
// RowShard with ColumnShard
static_assert(gives<RowS, Column, Column>(stationary_b));     // NN  gather A: sequence-parallel input
static_assert(can_give<RowS, Column, RowS>(stationary_a));    //     or gather B
static_assert(gives<RowS, T<Column>, RowS>(stationary_c));    // NT
static_assert(gives<T<RowS>, Column, Column>(stationary_c));  // TN
static_assert(gives<T<RowS>, T<Column>, All>(local));         // TT  all_reduce(Tp)
// RowShard with Replicated
static_assert(gives<RowS, All, RowS>(local));       // NN
static_assert(gives<RowS, T<All>, RowS>(local));    // NT
static_assert(gives<T<RowS>, All, All>(local));     // TN  B sliced, then all_reduce(Tp)
static_assert(gives<T<RowS>, T<All>, All>(local));  // TT  likewise
// RowShard with RowShard, ColumnShard with ColumnShard
static_assert(gives<RowS, RowS, RowS>(stationary_c));            // NN
static_assert(gives<RowS, T<RowS>, Column>(stationary_b));       // NT
static_assert(gives<T<RowS>, RowS, All>(local));                 // TN  data-parallel gradient: all_reduce(Tp)
static_assert(gives<T<RowS>, T<RowS>, Column>(stationary_c));    // TT
static_assert(gives<Column, Column, Column>(stationary_c));      // NN
static_assert(gives<Column, T<Column>, All>(local));             // NT  all_reduce(Tp)
static_assert(gives<T<Column>, Column, Column>(stationary_b));   // TN
static_assert(gives<T<Column>, T<Column>, RowS>(stationary_c));  // TT

// ---- two dimensions, R×C ranks, rectangular too ---------------------------------------------------------------
using Flat = Summa2D<2, 3>;
static_assert(gives<Flat, Flat, Flat>(stationary_c));           // NN  SUMMA
static_assert(gives<Flat, T<Flat>, Flat>(stationary_a));        // NT
static_assert(gives<T<Flat>, Flat, Flat>(stationary_b));        // TN
static_assert(gives<T<Flat>, T<Flat>, T<Flat>>(stationary_c));  // TT

// ---- Depth×Row×Col, q·q·d ranks --------------------------------------------------------------------------------
using X = Summa25D<2, 3>;
using W = Summa25DWeight<2, 3>;
// Activations with weights
static_assert(gives<X, W, X>(stationary_c));           // NN  Y = X·W, nothing over Depth
static_assert(gives<X, T<W>, X>(stationary_a));        // NT  dX = dY·Wᵀ, in each layer
static_assert(refused<T<X>, W>());                     // TN  Depth cuts k on one side only, and Col clashes
static_assert(gives<T<X>, T<W>, T<W>>(stationary_c));  // TT
// Activations with activations
static_assert(gives<X, X, X>(stationary_c));     // NN
static_assert(gives<X, T<X>, X>(stationary_a));  // NT
static_assert(gives<T<X>, X, W>(stationary_b));  // TN  dW = Xᵀ·dY, then all_reduce(Depth)
static_assert(can_give<T<X>, X, Partition<Grid25D<2, 3>, RowsOver<Row, Depth>, ColsOver<Col>>>(stationary_b));  // ZeRO
static_assert(gives<T<X>, T<X>, T<X>>(stationary_c));                                                           // TT
// Weights with weights: every layer does the same
static_assert(gives<W, W, W>(stationary_c));           // NN
static_assert(gives<W, T<W>, W>(stationary_a));        // NT
static_assert(gives<T<W>, W, W>(stationary_b));        // TN
static_assert(gives<T<W>, T<W>, T<W>>(stationary_c));  // TT

// ---- classical 2.5D: each depth layer multiplies 1/d of K -------------------------------------------------------
using KL = SplitKLeft<2, 3>;
using KR = SplitKRight<2, 3>;
static_assert(std::is_same_v<KR, X>);           // two names of one type
static_assert(gives<KL, KR, W>(stationary_c));  // NN  all_reduce(Depth)
static_assert(
    can_give<KL, KR, Partition<Grid25D<2, 3>, RowsOver<Row, Depth>, ColsOver<Col>>>(stationary_c));  // scatter
static_assert(!DerivedRule<KL, KR, X>::valid);  //     a scattered axis cuts last, not first
static_assert(refused<KL, T<KR>>() && refused<T<KL>, KR>() && refused<T<KL>, T<KR>>());  // NT, TN, TT: no common k

// ---- pairs without a name ---------------------------------------------------------------------------------------
// A thin B: only B and C move.
using Thin = Partition<Grid2D<2, 3>, RowsOver<Col, Row>>;
static_assert(gives<Flat, Thin, Partition<Grid2D<2, 3>, RowsOver<Row>>>(stationary_c));

// ---- extents: fixed meets dynamic, fixed wins -------------------------------------------------------------------
static_assert(std::is_same_v<MatmulRule<Summa2D<>, Summa2D<2, 3>>::result, Summa2D<2, 3>>);
static_assert(grids_meet<Grid2D<>, Grid2D<2, 3>> && !grids_meet<Grid2D<2, 2>, Grid2D<2, 3>> &&
              !grids_meet<Grid2D<>, TpGrid<>>);

}  // namespace

TEST_CASE("the multiplication table holds at run time too") {
  // The assertions above are the test; a plan found at run time is the same value.
  const Plan plan = plan_of(Summa2D<>::layout, transposed_t<Summa2D<>>::layout);
  CHECK(plan.algorithm == stationary_a);
  CHECK(plan.natural == Summa2D<>::layout);
}
