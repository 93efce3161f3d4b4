// SPDX-License-Identifier: Apache-2.0
// A pending sum is kept by matmul<Result>, refused as an operand, and finished by all_reduce.

#include <doctest/doctest.h>

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
