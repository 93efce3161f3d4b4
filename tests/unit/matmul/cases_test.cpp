// SPDX-License-Identifier: Apache-2.0
// Users' cases of products: aliases, leading dimensions, grids elsewhere in the world, 16-bit sums, sizes near 64 bits.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

/// On each rank: f() throws E and nothing else.
template <class E, class F>
void check_throws(F f) {
  CHECK_THROWS_AS(f(), E);
}

TEST_CASE("G07: padding of wrapped blocks is neither read nor written") {
  constexpr index_t m = 64, n = 239, k = 64, ld = 240;
  on_ranks(2, [](ThreadContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 2);
    std::vector<double> a(m * k), b(k * ld, -7777), c(m * ld, -7777);
    const Range own = balanced_part({0, n}, 2, context.rank());
    for (index_t i = 0; i < 64; ++i) {
      for (index_t j = 0; j < k; ++j) a[static_cast<std::size_t>(i * k + j)] = static_cast<double>(fill_a(i, j));
      for (index_t j = own.begin; j < own.end; ++j) {
        b[static_cast<std::size_t>(i * ld + j)] = static_cast<double>(fill_b(i, j));
      }
    }
    const auto left = wrap<Replicated<>>(grid, {m, k}, a.data(), k);
    const auto right = wrap<ColumnShard<>>(grid, {k, n}, b.data() + own.begin, ld);
    auto result = wrap<ColumnShard<>>(grid, {m, n}, c.data() + own.begin, ld);
    matmul_into(result, left, right);
    const auto whole = gather(result);
    CHECK(fingerprint(whole) == Fingerprint{12, 122838});
    CHECK(whole(0, 0) == 12);
    CHECK(whole(63, 238) == 9);
    bool untouched = true;
    for (index_t i = 0; i < 64; ++i) {
      for (index_t j = 0; j < ld; ++j) {
        if (own.contains(j)) continue;
        const auto at = static_cast<std::size_t>(i * ld + j);
        untouched = untouched && b[at] == -7777 && c[at] == -7777;
      }
    }
    CHECK(untouched);
  });
}

TEST_CASE("G11: a destination that is also an operand is refused before any write, at every size") {
  for (const int q : {1, 2, 3}) {
    on_ranks(q * q, [q](ThreadContext& context) {
      const auto grid = make_grid<Grid2D<>>(context, q, q);
      for (const index_t n : {3, 1, 40}) {
        const auto value = [n](index_t i, index_t j) { return i * n + j + 1; };
        auto a = from_function<double, Summa2D<>>(grid, {n, n}, value);
        auto b = from_function<double, Summa2D<>>(grid, {n, n}, fill_b);
        check_throws<AliasError>([&] { matmul_into(a, a, a); });
        check_throws<AliasError>([&] { matmul_into(a, a, b); });
        check_throws<AliasError>([&] { matmul_into(a, b, a); });
        check_throws<AliasError>([&] { matmul_into(a, transposed(a), b); });
        check_throws<AliasError>([&] { matmul_into(a, b, transposed(a)); });
        check_throws<AliasError>([&] { matmul_into(a, a, b, 0, 1); });  // the same rule whatever the factors
        CHECK(
            same_bits(gather(a), serial_product<double>(n, n, n, value, [](index_t i, index_t j) { return i == j; })));
        // The communicator is usable, and the product into another tensor is right.
        auto c = zeros<double, Summa2D<>>(grid, {n, n});
        matmul_into(c, a, a);
        const auto whole = gather(c);
        if (n == 3) CHECK(whole.elements == std::vector<double>{30, 36, 42, 66, 81, 96, 102, 126, 150});
        CHECK(same_bits(whole, serial_product<double>(n, n, n, value, value)));
        // A clone and a moved tensor are what they say.
        auto moved = std::move(a);
        check_throws<AliasError>([&] { matmul_into(moved, moved, b); });
        auto copy = moved.clone();
        matmul_into(copy, moved, moved);
        CHECK(same_bits(gather(copy), whole));
      }
    });
  }
}

TEST_CASE("G11: memory that is shared by wrapping counts as one tensor on all ranks") {
  on_ranks(4, [](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    std::vector<double> memory(64, 1.0), elsewhere(64, 1.0);
    const auto b = from_function<double, P>(grid, {6, 6}, fill_b);
    {
      const auto a = wrap<P>(grid, {6, 6}, memory.data(), 3);
      auto same = wrap<P>(grid, {6, 6}, memory.data(), 3);
      check_throws<AliasError>([&] { matmul_into(same, a, b); });
      // Only rank 2's blocks touch, and only by an element.
      auto touching = wrap<P>(grid, {6, 6}, context.rank() == 2 ? memory.data() + 8 : elsewhere.data(), 3);
      check_throws<AliasError>([&] { matmul_into(touching, a, b); });
      check_throws<AliasError>([&] { matmul_into(touching, b, transposed(a)); });
      auto apart = wrap<P>(grid, {6, 6}, memory.data() + 9 + 8 * (context.rank() == 2), 3);
      matmul_into(apart, b, b);
      CHECK(same_bits(gather(apart), serial_product<double>(6, 6, 6, fill_b, fill_b)));
      auto tensor = from_function<double, P>(grid, {6, 6}, fill_a);
      auto over_tensor = wrap<P>(grid, {6, 6}, tensor.local().data, 3);
      check_throws<AliasError>([&] { matmul_into(over_tensor, tensor, b); });
    }
    // Where the wrapping tensors are gone, the memory is free.
    const auto again = wrap<P>(grid, {6, 6}, memory.data(), 3);
    auto other = wrap<P>(grid, {6, 6}, memory.data() + 9, 3);
    matmul_into(other, again, b);
  });
}

TEST_CASE("G11: a result that lies across the memory of two tensors shares memory with each of them") {
  for (const int ranks : {1, 4}) {
    on_ranks(ranks, [ranks](ThreadContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      std::vector<double> memory(64, 1.0), elsewhere(64, 1.0);
      // Only the last rank's blocks touch.
      double* base = context.rank() == ranks - 1 ? memory.data() : elsewhere.data();
      auto x = wrap<Replicated<>>(grid, {4, 4}, memory.data(), 4);
      auto y = wrap<Replicated<>>(grid, {4, 4}, memory.data() + 16, 4);
      auto across = wrap<Replicated<>>(grid, {4, 4}, base + 8, 4);
      const auto other = from_function<double, Replicated<>>(grid, {4, 4}, fill_a);
      check_throws<AliasError>([&] { matmul_into(across, x, other); });
      check_throws<AliasError>([&] { matmul_into(across, y, other); });
      check_throws<AliasError>([&] { matmul_into(x, across, other); });
      check_throws<AliasError>([&] { matmul_into(y, other, across); });
    });
  }
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
  for (const int p : {1, 2, 4}) {
    on_ranks(p, [p](ThreadContext& context) {
      const auto grid = make_grid<TpGrid<>>(context, p);
      const auto x = from_function<bfloat16, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t) { return 1.0F; });
      const auto w =
          from_function<bfloat16, RowShard<>>(grid, {4, 1}, [](index_t i, index_t) { return i == 0 ? 256.0F : 1.0F; });
      const auto y = matmul(x, w);
      CHECK(static_cast<float>(y.local()(0, 0)) == 260);
      // Kept pending, the sum is stored in fp32 and loses nothing.
      using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
      const auto pending = matmul<Pending>(x, w);
      static_assert(std::is_same_v<std::remove_const_t<decltype(pending)>::value_type, float>);
      float sum = 0;
      context.comm().all_reduce(pending.local(), row_view(&sum, 1)).wait();
      CHECK(sum == 259);
    });
  }
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
