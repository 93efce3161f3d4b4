// SPDX-License-Identifier: Apache-2.0
// What is fixed about memory of the user's own and about results that share memory with operands, as one rank of any
// kind.
#pragma once

#include <doctest/doctest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "support/fills.hpp"
#include "support/product_texts.hpp"
#include "support/user_memory.hpp"

namespace partita::test {

/// G07: padding of wrapped blocks is neither read nor written. On 2 ranks.
template <class Ctx>
void check_padding(Ctx& context) {
  constexpr index_t m = 64, n = 239, k = 64, ld = 240;
  const auto grid = make_grid<TpGrid<>>(context, 2);
  UserMemory<double, Ctx> a(context, m * k, 0), b(context, k * ld, -7777), c(context, m * ld, -7777);
  const Range own = balanced_part({0, n}, 2, context.rank());
  set_elements(context, View<double>(a.data(), m, k, k), fill_a);
  set_elements(context, View<double>(b.data() + own.begin, k, own.size(), ld),
               [own](index_t i, index_t j) { return fill_b(i, own.begin + j); });
  const auto left = wrap<Replicated<>>(grid, {m, k}, a.data(), k);
  const auto right = wrap<ColumnShard<>>(grid, {k, n}, b.data() + own.begin, ld);
  auto result = wrap<ColumnShard<>>(grid, {m, n}, c.data() + own.begin, ld);
  matmul_into(result, left, right);
  const auto whole = gather(result);
  CHECK(fingerprint(whole) == Fingerprint{12, 122838});
  CHECK(whole(0, 0) == 12);
  CHECK(whole(63, 238) == 9);
  bool untouched = true;
  const Matrix<double> b_after = elements_of(context, b.row());
  const Matrix<double> c_after = elements_of(context, c.row());
  for (index_t i = 0; i < 64; ++i) {
    for (index_t j = 0; j < ld; ++j) {
      if (!own.contains(j)) untouched = untouched && b_after(0, i * ld + j) == -7777 && c_after(0, i * ld + j) == -7777;
    }
  }
  CHECK(untouched);
}

/// Memory that may only be read is an operand like any other; column-major data enters as a transposed view. On 2
/// ranks.
template <class Ctx>
void check_read_only_and_column_major(Ctx& context) {
  const auto grid = make_grid<RowShard<2>>(context);
  UserMemory<float, Ctx> memory(context, 6, 2);
  const float* const read_only = memory.data();
  const auto a = wrap<RowShard<2>>(grid, {4, 3}, read_only, 3);
  const auto b = from_function<float, Replicated<2>>(grid, {3, 1}, [](index_t i, index_t) { return i + 1; });
  CHECK(gather(matmul(a, b)).elements == std::vector<float>(4, 12.0F));
  CHECK(gather(matmul(transposed(a), a))(0, 0) == 16.0F);
  // Rows 2r and 2r + 1 of a 4x3 matrix in columns of two, with a gap after each.
  UserMemory<float, Ctx> columns(context, 9, -1);
  const index_t first = 2 * context.rank();
  set_elements(context, View<float>(columns.data(), 3, 2, 3),
               [first](index_t j, index_t i) { return static_cast<float>(fill_a(first + i, j)); });
  const auto stored = wrap<ColumnShard<2>>(grid, {3, 4}, columns.data(), 3);
  const auto x = [](index_t i, index_t j) { return fill_a(i, j); };
  CHECK(same_bits(gather(matmul(transposed(stored), b)),
                  serial_product<float>(4, 1, 3, x, [](index_t i, index_t) { return i + 1; })));
}

/// G11: a destination that is also an operand is refused before any write, at every size. On 1, 4 or 9 ranks.
template <class Ctx>
void check_operand_as_result(Ctx& context) {
  const int q = context.size() == 1 ? 1 : context.size() == 4 ? 2 : 3;
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
    CHECK(same_bits(gather(a), serial_product<double>(n, n, n, value, [](index_t i, index_t j) { return i == j; })));
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
}

/// G11: memory that is shared by wrapping counts as one tensor on all ranks. On 4 ranks.
template <class Ctx>
void check_shared_memory(Ctx& context) {
  const auto grid = make_grid<Grid2D<>>(context, 2, 2);
  using P = Summa2D<>;
  UserMemory<double, Ctx> memory(context, 64, 1.0), elsewhere(context, 64, 1.0);
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
}

/// G11: a result that lies across the memory of two tensors shares memory with each of them.
template <class Ctx>
void check_memory_of_two(Ctx& context) {
  const auto grid = make_grid<TpGrid<>>(context, context.size());
  UserMemory<double, Ctx> memory(context, 64, 1.0), elsewhere(context, 64, 1.0);
  // Only the last rank's blocks touch.
  double* base = context.rank() == context.size() - 1 ? memory.data() : elsewhere.data();
  auto x = wrap<Replicated<>>(grid, {4, 4}, memory.data(), 4);
  auto y = wrap<Replicated<>>(grid, {4, 4}, memory.data() + 16, 4);
  auto across = wrap<Replicated<>>(grid, {4, 4}, base + 8, 4);
  const auto other = from_function<double, Replicated<>>(grid, {4, 4}, fill_a);
  check_throws<AliasError>([&] { matmul_into(across, x, other); });
  check_throws<AliasError>([&] { matmul_into(across, y, other); });
  check_throws<AliasError>([&] { matmul_into(x, across, other); });
  check_throws<AliasError>([&] { matmul_into(y, other, across); });
}

}  // namespace partita::test
