// SPDX-License-Identifier: Apache-2.0
// Users' cases of products: aliases, leading dimensions, grids elsewhere in the world, 16-bit sums, sizes near 64 bits.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/fills.hpp"
#include "support/memory_texts.hpp"
#include "support/product_texts.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

TEST_CASE("G07: padding of wrapped blocks is neither read nor written") { on_ranks(2, check_padding<ThreadContext>); }

TEST_CASE("G11: a destination that is also an operand is refused before any write, at every size") {
  for (const int ranks : {1, 4, 9}) on_ranks(ranks, check_operand_as_result<ThreadContext>);
}

TEST_CASE("G11: memory that is shared by wrapping counts as one tensor on all ranks") {
  on_ranks(4, check_shared_memory<ThreadContext>);
}

TEST_CASE("G11: a result that lies across the memory of two tensors shares memory with each of them") {
  for (const int ranks : {1, 4}) on_ranks(ranks, check_memory_of_two<ThreadContext>);
}

TEST_CASE("C06: roots are found in grids anywhere in the world") {
  const auto check = [](ThreadContext& context, auto grid_and_weight) {
    using Act = typename decltype(grid_and_weight)::a;
    using Weight = typename decltype(grid_and_weight)::b;
    const auto grid = make_grid<typename Act::grid_type>(context);
    const auto x = from_function<double, Act>(grid, {8, 4}, fill_a);
    const auto w = from_function<double, Weight>(grid, {4, 6}, fill_b);
    const auto y = gather(matmul(x, w));
    CHECK(fingerprint(y) == Fingerprint{-12, -324});
    CHECK(y(0, 0) == 4);
    CHECK(y(7, 5) == -20);
    // And where partial products are reduced to a root.
    const auto dx = gather(matmul(matmul(x, w), transposed(w)));
    const auto dw = gather(matmul(transposed(x), x));
    const auto x_transposed = [](index_t i, index_t j) { return fill_a(j, i); };
    CHECK(same_bits(dx, serial_product<double>(8, 4, 6, y, [](index_t i, index_t j) { return fill_b(j, i); })));
    CHECK(same_bits(dw, serial_product<double>(4, 4, 8, x_transposed, fill_a)));
  };
  on_ranks(8, [&](ThreadContext& context) { check(context, Pair<Summa25D<2, 2>, Summa25DWeight<2, 2>>{}); });
  launch_threads(8, [&](ThreadComm& world) {
    auto upper = world.split(world.rank() >= 4 ? 0 : -1, world.rank());
    if (upper) {
      ThreadContext context(*std::move(upper));
      check(context, Pair<Summa2D<2>, Summa2D<2>>{});
    }
    // Ranks 7, 5, 3, 1 in this order.
    auto odd = world.split(world.rank() % 2 == 1 ? 0 : -1, -world.rank());
    CHECK(odd.has_value() == (world.rank() % 2 == 1));
    if (odd) {
      CHECK(odd->rank() == (7 - world.rank()) / 2);
      ThreadContext context(*std::move(odd));
      check(context, Pair<Summa2D<2>, Summa2D<2>>{});
    }
    world.barrier();
  });
}

TEST_CASE("P01: bfloat16 partial sums are added in fp32 and rounded once") {
  for (const int p : {1, 2, 4}) on_ranks(p, check_pending_in_fp32<ThreadContext>);
}

TEST_CASE("O03: offsets of large blocks are 64 bit, and sizes that leave them are refused") {
  constexpr index_t n = 46341;  // n² is just above 2^31
  static_assert(Block{{0, n}, {0, n}}.size() == 2147488281);
  static_assert(Shape{index_t{1} << 33, 4}.size() == index_t{1} << 35);
  static_assert(checked_product(n, n) == 2147488281);
  // The block is reserved, not filled: only the pages that are touched take memory.
  void* memory = mmap(nullptr, static_cast<std::size_t>(n * n), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* first = static_cast<std::uint8_t*>(memory);
  on_ranks(1, [&](ThreadContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 1);
    auto block = wrap<Replicated<>>(grid, {n, n}, first, n);
    const View<std::uint8_t> view = block.local();
    view(n - 1, n - 1) = 42;
    CHECK(&view(n - 1, n - 1) - first == 2147488280);
    CHECK(first[2147488280] == 42);
    CHECK(view.sub({{n - 1, n}, {n - 1, n}})(0, 0) == 42);
    CHECK(extent_of(view).end - first == 2147488281);
  });
  munmap(memory, static_cast<std::size_t>(n * n));

  on_ranks(2, [](ThreadContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    constexpr index_t huge = index_t{1} << 40;
    check_throws<CapacityError>([&] { (void)zeros<double, RowShard<>>(grid, {huge, huge}); });
    check_throws<CapacityError>(
        [&] { (void)zeros<double, RowShard<>>(grid, {huge, 1 << 21}); });  // bytes leave 64 bits
    check_throws<CapacityError>([&] { (void)zeros<float, Replicated<>>(grid, {index_t{1} << 58, 1}); });
    check_throws<CapacityError>([&] { (void)Matrix<double>(Shape{huge, huge}); });
    check_throws<CapacityError>([&] { (void)checked_product(index_t{1} << 32, index_t{1} << 31); });
    CHECK(checked_product(index_t{1} << 32, index_t{1} << 30) == index_t{1} << 62);
    CHECK(gather(zeros<double, RowShard<>>(grid, {3, 2})).shape == Shape{3, 2});  // usable afterwards
  });
}

}  // namespace
}  // namespace partita::test
