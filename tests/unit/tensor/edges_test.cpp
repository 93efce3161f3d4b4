// SPDX-License-Identifier: Apache-2.0
// Pending sums that are kept and finished, memory that may only be read, sizes at the edge of 64 bits.

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "partita/backend/eigen.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/thread.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/gather.hpp"
#include "partita/tensor/pending.hpp"
#include "support/fills.hpp"

using namespace partita;
using namespace partita::test;

TEST_CASE("a pending sum that was kept is finished by all_reduce, with the bits of the product that sums at once") {
  launch_threads(3, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<ColumnShard<3>>(context);
    const auto a = from_function<float, ColumnShard<3>>(grid, {5, 7}, fill_a);
    const auto b = from_function<float, RowShard<3>>(grid, {7, 4}, fill_b);
    using Pending = Partition<TpGrid<3>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
    const auto pending = matmul<Pending>(a, b);
    static_assert(std::is_same_v<std::remove_const_t<decltype(pending)>::partition, Pending>);
    const auto sum = all_reduce(pending);
    static_assert(std::is_same_v<std::remove_const_t<decltype(sum)>::partition, Replicated<3>>);
    CHECK(gather(sum).elements == gather(matmul(a, b)).elements);
    CHECK(!sum.identity().shares_memory_with(pending.identity()));
  });
}

TEST_CASE("16-bit operands keep their pending sum in fp32") {
  launch_threads(2, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<ColumnShard<2>>(context);
    const auto one = [](index_t, index_t) { return 1.0F; };
    const auto a = from_function<bfloat16, ColumnShard<2>>(grid, {1, 514}, one);
    const auto b = from_function<bfloat16, RowShard<2>>(grid, {514, 1}, one);
    const auto pending = matmul<Partition<TpGrid<2>, RowsOver<>, ColsOver<>, PartialOver<Tp>>>(a, b);
    static_assert(std::is_same_v<std::remove_const_t<decltype(pending)>::value_type, float>);
    CHECK(gather(all_reduce(pending))(0, 0) == 514.0F);  // no bfloat16 has this value
  });
}

TEST_CASE("memory that may only be read is an operand like any other") {
  launch_threads(2, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<RowShard<2>>(context);
    const std::vector<float> memory(6, 2.0F);
    const auto a = wrap<RowShard<2>>(grid, {4, 3}, memory.data(), 3);
    const auto b = from_function<float, Replicated<2>>(grid, {3, 1}, [](index_t i, index_t) { return i + 1; });
    CHECK(gather(matmul(a, b)).elements == std::vector<float>(4, 12.0F));
    CHECK(gather(matmul(transposed(a), a))(0, 0) == 16.0F);
  });
}

TEST_CASE(
    "sizes at the edge of 64 bits: units that never cut, wide panels, long empty dimensions, roots that are no rank") {
  launch_threads(4, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<Summa2D<2>>(context);
    const index_t big = std::numeric_limits<index_t>::max();
    const auto one = [](index_t, index_t) { return 1.0F; };
    const auto whole = from_function<float, Summa2D<2>>(grid, {4, 4}, one, Units{big, big});
    CHECK(gather(matmul(whole, whole)).elements == std::vector<float>(16, 4.0F));
    const auto a = from_function<float, Summa2D<2>>(grid, {4, 4}, one);
    const MatmulOptions wide{.panel_width = big, .panels = PanelMove::all_gather};
    CHECK(gather(matmul(a, a, wide)).elements == std::vector<float>(16, 4.0F));
    const auto left = zeros<float, Summa2D<2>>(grid, {0, index_t{1} << 60});
    const auto right = zeros<float, Summa2D<2>>(grid, {index_t{1} << 60, 0});
    CHECK(matmul(left, right).shape() == Shape{0, 0});
    const Matrix<float> matrix = gather(a);
    CHECK_THROWS_AS((void)scatter<Summa2D<2>>(grid, {4, 4}, matrix.view(), 4), ArgumentError);
    CHECK_THROWS_AS((void)scatter<Summa2D<2>>(grid, {4, 4}, matrix.view(), -1), ArgumentError);
    CHECK_THROWS_AS((void)scatter<Summa2D<2>>(grid, {4, 4}, View<const float>(nullptr, Shape{4, 4}), 0), ShapeError);
  });
}
