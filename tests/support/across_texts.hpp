// SPDX-License-Identifier: Apache-2.0
// What is fixed about products of operands that lie anywhere, as one rank of any kind.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <vector>

#include "partita/matmul/across.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {

/// alpha = 0 reads no operand, beta = 0 no old value; k = 0 gives beta C. On 4 ranks.
template <class Ctx>
void check_factors_across(Ctx& context) {
  const auto line = make_grid<ColumnShard<>>(context, 4);
  const auto plane = make_grid<Grid2D<>>(context, 2, 2);
  const auto not_a_number = [](index_t, index_t) { return std::numeric_limits<double>::quiet_NaN(); };
  const auto one = [](index_t, index_t) { return 1.0; };
  const auto a = from_function<double, ColumnShard<>>(line, {5, 4}, one);
  const auto b = from_function<double, ColumnShard<>>(line, {4, 6}, one);
  auto c = from_function<double, Summa2D<>>(plane, {5, 6}, not_a_number);
  matmul_across_into(c, a, b);
  CHECK(gather(c).elements == std::vector<double>(30, 4.0));
  const auto bad = from_function<double, ColumnShard<>>(line, {5, 4}, not_a_number);
  const Traffic before = context.comm().traffic();
  matmul_across_into(c, bad, b, 0, 3);
  CHECK(context.comm().traffic() - before == Traffic{});
  CHECK(gather(c).elements == std::vector<double>(30, 12.0));
  const auto none = from_function<double, ColumnShard<>>(line, {5, 0}, one);
  const auto nothing = from_function<double, ColumnShard<>>(line, {0, 6}, one);
  matmul_across_into(c, none, nothing, 1, 2);
  CHECK(gather(c).elements == std::vector<double>(30, 24.0));
}

/// Errors come before any write, on all ranks, and the communicator stays usable. On 4 ranks.
template <class Ctx>
void check_errors_across(Ctx& context) {
  const auto line = make_grid<ColumnShard<>>(context, 4);
  const auto plane = make_grid<Grid2D<>>(context, 2, 2);
  const auto a = from_function<double, ColumnShard<>>(line, {8, 8}, fill_a);
  auto c = from_function<double, Summa2D<>>(plane, {8, 8}, fill_c);
  const auto narrow = from_function<double, ColumnShard<>>(line, {7, 8}, fill_a);
  CHECK_THROWS_AS(matmul_across_into(c, a, narrow), ShapeError);
  auto small = from_function<double, Summa2D<>>(plane, {8, 7}, fill_c);
  CHECK_THROWS_AS(matmul_across_into(small, a, a), ShapeError);
  CHECK_THROWS_AS(matmul_across_into(c, c, a), AliasError);
  CHECK_THROWS_AS(matmul_across_into(c, a, a, 1, 0, {.panel_width = 0}), ArgumentError);
  CHECK_THROWS_AS(matmul_across_into(c, a, a, 1, 0, {.workspace_bytes = 8}), CapacityError);
  if constexpr (Ctx::comm_type::panels_in_place) {  // the rule needs no scratch memory: none is no obstacle
    const auto square = from_function<double, Summa2D<>>(plane, {8, 8}, fill_a);
    auto d = zeros<double, Summa2D<>>(plane, {8, 8});
    matmul_across_into(d, square, square, 1, 0, {.workspace_bytes = 0});
    CHECK(gather(d).elements == gather(matmul(square, square)).elements);
  }
  CHECK(gather(c).elements == gather(from_function<double, Summa2D<>>(plane, {8, 8}, fill_c)).elements);
  // Two panels in flight, each of w·(4 + 4) doubles: width 1 needs 128 bytes, and 300 bytes are enough for 2.
  matmul_across_into(c, a, a, 1, 0, {.workspace_bytes = 300});
  CHECK(gather(c).elements == gather(matmul_across<Summa2D<>>(plane, a, a)).elements);
}

/// Nothing moves where m, n or k is 0, and nothing is predicted to. On 4 ranks.
template <class Ctx>
void check_nothing_across(Ctx& context) {
  const auto line = make_grid<ColumnShard<>>(context, 4);
  const auto plane = make_grid<Grid2D<>>(context, 2, 2);
  for (const auto& [m, n, k] : {std::array<index_t, 3>{0, 13, 40}, {13, 0, 40}, {13, 40, 0}}) {
    const auto a = from_function<double, ColumnShard<>>(line, {m, k}, fill_a);
    const auto b = from_function<double, ColumnShard<>>(line, {k, n}, fill_b);
    auto c = from_function<double, Summa2D<>>(plane, {m, n}, fill_c);
    CHECK(across_costs(c, a, b).panels == 0);
    const Traffic before = context.comm().traffic();
    matmul_across_into(c, a, b, 1, 1);
    CHECK(context.comm().traffic() - before == Traffic{});
  }
}

}  // namespace partita::test
