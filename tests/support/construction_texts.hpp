// SPDX-License-Identifier: Apache-2.0
// What is fixed about making grids and tensors where one rank cannot, as one rank of any kind.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>

#include "support/failing_comm.hpp"
#include "support/fills.hpp"
#include "support/thrown.hpp"
#include "support/user_memory.hpp"

namespace partita::test {

/// Calls f on each of 4 ranks: all must leave with E within 20 seconds, and with a text that holds `text`.
template <class E, class Ctx, class F>
void all_refuse(Ctx& context, const std::string& text, F f) {
  const auto start = std::chrono::steady_clock::now();
  const std::string found = text_thrown<E>(f);
  INFO(found);
  CHECK(found.find(text) != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  context.comm().barrier();  // the communicator is usable
}

/// F07: what one rank cannot build, no rank builds, and all say why. On 4 ranks of a FailingComm.
template <class Ctx>
void check_what_one_rank_cannot_build(Ctx& context) {
  const bool bad = context.rank() == 3;
  auto& allocations = context.comm().allocations();

  // Grids.
  all_refuse<GridError>(context, "Grid<Tp 5> needs 5 ranks (5), the communicator has 4",
                        [&] { (void)make_grid<TpGrid<>>(context, bad ? 5 : 4); });
  all_refuse<GridError>(context, "every axis needs an extent of at least 1",
                        [&] { (void)make_grid<Grid2D<>>(context, bad ? -2 : 2, bad ? -2 : 2); });
  CHECK_THROWS_AS((void)make_grid<Grid2D<>>(context, bad ? 1 : 4, bad ? 4 : 1), GridError);  // 4 ranks either way

  const auto grid = make_grid<Grid2D<>>(context, 2, 2);
  using P = Summa2D<>;
  // Sizes.
  all_refuse<ShapeError>(context, "sizes must be at least 0", [&] { (void)zeros<double, P>(grid, {6, bad ? -5 : 5}); });
  all_refuse<ShapeError>(context, "units must be at least 1",
                         [&] { (void)zeros<double, P>(grid, {6, 5}, {1, bad ? 0 : 1}); });
  const auto another_size = [&] { (void)zeros<double, P>(grid, {6, bad ? 4 : 5}); };
  const auto another_unit = [&] { (void)zeros<double, P>(grid, {6, 5}, {bad ? 2 : 1, 1}); };
  CHECK_THROWS_AS(another_size(), ShapeError);
  CHECK_THROWS_AS(another_unit(), ShapeError);
  // Blocks that the user owns.
  UserMemory<double, Ctx> memory(context, 64, 0);
  all_refuse<ShapeError>(context, "null pointer",
                         [&] { (void)wrap<P>(grid, {6, 5}, bad ? nullptr : memory.data(), 3); });
  all_refuse<ShapeError>(context, "leading dimension of 1",
                         [&] { (void)wrap<P>(grid, {6, 5}, memory.data(), bad ? 1 : 3); });
  all_refuse<ShapeError>(context, "leading dimension of -3",
                         [&] { (void)wrap<P>(grid, {6, 5}, memory.data(), bad ? -3 : 3); });
  all_refuse<ShapeError>(context, "sizes must be at least 0",
                         [&] { (void)wrap<P>(grid, {bad ? -6 : 6, 5}, memory.data(), 3); });
  // Memory that cannot be had, in every constructor.
  const auto without_memory = [&](auto make) {
    all_refuse<CapacityError>(context, "no memory, says the test", [&] {
      allocations.left = bad ? 0 : 1000;
      make();
    });
    allocations.left = std::numeric_limits<index_t>::max();
    make();  // the next construction works
  };
  const auto a = from_function<double, P>(grid, {6, 6}, fill_a);
  without_memory([&] { (void)zeros<double, P>(grid, {6, 5}); });
  without_memory([&] { (void)from_function<double, P>(grid, {6, 5}, fill_a); });
  without_memory([&] { (void)random_uniform<double, P>(grid, {6, 5}, 1); });
  without_memory([&] { (void)a.clone(); });
  without_memory([&] { (void)matmul(a, a); });  // the result's own block
  Matrix<double> whole(Shape{6, 5});
  without_memory([&] { (void)scatter<P>(grid, {6, 5}, View<const double>(whole.view()), 0); });
  CHECK(same_bits(gather(matmul(a, a)), serial_product<double>(6, 6, 6, fill_a, fill_a)));
}

}  // namespace partita::test
