// SPDX-License-Identifier: Apache-2.0
// What is fixed about products of tensors, as one rank of any kind: errors that all ranks share, results as asked for,
// 16-bit and complex operands.
#pragma once

#include <doctest/doctest.h>

#include <complex>
#include <string>
#include <type_traits>

#include "partita/tensor/pending.hpp"
#include "support/fills.hpp"
#include "support/test_ranks.hpp"
#include "support/thrown.hpp"

namespace partita::test {

/// Text of the error E that f throws on this rank; the communicator must be usable afterwards.
template <class E, class Ctx, class F>
std::string error_of(Ctx& context, F f) {
  std::string text = text_thrown<E>(f);
  if constexpr (host_memory_v<typename Ctx::backend_type>) {
    int sum = 1;
    context.comm().all_reduce(row_view(&sum, 1), row_view(&sum, 1)).wait();
    CHECK(sum == context.size());
  } else {
    const Memory memory = context.template allocate<int>(1);
    const View<int> sum = row_view(reinterpret_cast<int*>(memory.get()), 1);
    set_elements(context, sum, [](index_t, index_t) { return 1; });
    context.comm().all_reduce(sum, sum).wait();
    CHECK(elements_of(context, sum)(0, 0) == context.size());
  }
  return text;
}

/// On each rank: f() throws E and nothing else.
template <class E, class F>
void check_throws(F f) {
  CHECK_THROWS_AS(f(), E);
}

/// Bad arguments throw one error on all ranks, before any write, and the communicator stays usable. On 4 ranks.
template <class Ctx>
void check_bad_arguments(Ctx& context) {
  const auto grid = make_grid<Grid2D<>>(context, 2, 2);
  using P = Summa2D<>;
  const auto a = from_function<double, P>(grid, {5, 4}, fill_a);
  const auto b = from_function<double, P>(grid, {4, 7}, fill_b);
  const auto b6 = from_function<double, P>(grid, {6, 7}, fill_b);
  auto c = from_function<double, P>(grid, {5, 7}, fill_c);
  CHECK(error_of<ShapeError>(context, [&] { (void)matmul(a, b6); }) ==
        "ShapeError: matmul of 5x4 by 6x7: the left operand has 4 columns, the right one 6 rows");
  CHECK(error_of<ShapeError>(context, [&] { matmul_into(c, a, b6); }).starts_with("ShapeError: matmul of 5x4 by 6x7"));
  auto c65 = zeros<double, P>(grid, {6, 5});
  CHECK(error_of<ShapeError>(context, [&] { matmul_into(c65, a, b); }) ==
        "ShapeError: matmul of 5x4 by 4x7 gives 5x7, the result passed has 6x5");
  CHECK(error_of<ShapeError>(context, [&] { matmul_into(c, transposed(a), b); }).find("4x5 by 4x7") !=
        std::string::npos);
  // Units.
  const auto a2 = from_function<double, P>(grid, {5, 4}, fill_a, Units{3, 2});
  const auto b2 = from_function<double, P>(grid, {4, 7}, fill_b, Units{2, 5});
  CHECK(
      error_of<UnitError>(context, [&] {
        matmul_into(c, a2, b2);
      }).find("the product's are 3 (rows of the left operand) and 5 (columns of the right one)") != std::string::npos);
  CHECK(matmul(a2, b2).units() == Units{3, 5});
  // On this grid A's columns and B's rows have no common axis: panels are cut at both sides' borders.
  CHECK(same_bits(gather(matmul(a2, b)), serial_product<double>(5, 7, 4, fill_a, fill_b)));
  CHECK(error_of<UnitError>(context, [&] {
          (void)matmul(a2, transposed(from_function<double, P>(grid, {7, 4}, fill_a)));
        }) == "UnitError: matmul cuts k in units of 2 on the left and 1 on the right; give both the same unit");
  // Options.
  for (const MatmulOptions& options :
       {MatmulOptions{.panel_width = 0}, MatmulOptions{.panel_width = -1}, MatmulOptions{.lookahead = 0},
        MatmulOptions{.lookahead = -3}, MatmulOptions{.sum_width = 0}, MatmulOptions{.sum_width = -2}}) {
    CHECK(error_of<ArgumentError>(context, [&] {
            (void)matmul(a, b, options);
          }).starts_with("ArgumentError: matmul with"));
    CHECK(error_of<ArgumentError>(context, [&] { matmul_into(c, a, b, 1, 0, options); }).find("must be at least 1") !=
          std::string::npos);
  }
  if constexpr (!Ctx::comm_type::panels_in_place) {
    CHECK(error_of<CapacityError>(context, [&] {
            matmul_into(c, a, b, 1, 0, MatmulOptions{.workspace_bytes = 0});
          }).starts_with("CapacityError"));
  }
  // Another grid of the same ranks.
  const auto wide = make_grid<Grid2D<>>(context, 1, 4);
  const auto b_wide = from_function<double, P>(wide, {4, 7}, fill_b);
  CHECK(error_of<GridError>(context, [&] { (void)matmul(a, b_wide); }).find("{Row 2, Col 2} and {Row 1, Col 4}") !=
        std::string::npos);
  auto c_wide = zeros<double, P>(wide, {5, 7});
  CHECK(error_of<GridError>(context, [&] { matmul_into(c_wide, a, b); }).starts_with("GridError"));
  // Nothing was written.
  const Matrix<double> kept = elements_of(c);
  const Block block = c.block();
  bool untouched = true;
  for (index_t i = block.rows.begin; i < block.rows.end; ++i) {
    for (index_t j = block.cols.begin; j < block.cols.end; ++j) {
      untouched = untouched && kept(i - block.rows.begin, j - block.cols.begin) == static_cast<double>(fill_c(i, j));
    }
  }
  CHECK(untouched);
  matmul_into(c, a, b);
  CHECK(same_bits(gather(c), serial_product<double>(5, 7, 4, fill_a, fill_b)));
  // Operands on two grid objects that arrange the ranks alike, one with fixed extents.
  const auto fixed = make_grid<Summa2D<2>>(context);
  const auto b_fixed = from_function<double, Summa2D<2>>(fixed, {4, 7}, fill_b);
  const auto met = matmul(a, b_fixed);
  static_assert(std::is_same_v<typename std::remove_const_t<decltype(met)>::partition, Summa2D<2>>);
  CHECK(same_bits(gather(met), gather(c)));
}

/// The result asked for: all_reduced, scattered over rows or columns, or kept pending. On any number of ranks.
template <class Ctx>
void check_results_asked_for(Ctx& context) {
  const auto grid = make_grid<TpGrid<>>(context, context.size());
  const auto a = from_function<double, ColumnShard<>>(grid, {7, 8}, fill_a);
  const auto b = from_function<double, RowShard<>>(grid, {8, 5}, fill_b);
  const auto wanted = serial_product<double>(7, 5, 8, fill_a, fill_b);
  const auto sum = matmul(a, b);
  static_assert(std::is_same_v<typename std::remove_const_t<decltype(sum)>::partition, Replicated<>>);
  CHECK(same_bits(gather(sum), wanted));
  CHECK(same_bits(elements_of(sum), wanted));  // each rank's own copy
  CHECK(same_bits(gather(matmul<Replicated<>>(a, b)), wanted));
  const auto rows = matmul<RowShard<>>(a, b);
  CHECK(rows.local().rows == balanced_part({0, 7}, context.size(), context.rank()).size());
  CHECK(same_bits(gather(rows), wanted));
  const auto cols = matmul<ColumnShard<>>(a, b);
  CHECK(cols.local().cols == balanced_part({0, 5}, context.size(), context.rank()).size());
  CHECK(same_bits(gather(cols), wanted));
  using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
  const auto kept = matmul<Pending>(a, b);
  const auto finished = all_reduce(kept);
  CHECK(same_bits(gather(finished), wanted));
  CHECK(!finished.identity().shares_memory_with(kept.identity()));
  // Into a result with these partitions, with beta.
  auto c = from_function<double, RowShard<>>(grid, {7, 5}, fill_c);
  matmul_into(c, a, b, 2, -3);
  const auto found = gather(c);
  bool right = true;
  for (index_t i = 0; i < 7; ++i) {
    for (index_t j = 0; j < 5; ++j) {
      right = right && found(i, j) == 2 * wanted(i, j) - 3 * static_cast<double>(fill_c(i, j));
    }
  }
  CHECK(right);
}

/// 16-bit products are rounded once, whatever the panels. On 4 ranks.
template <class S, class Ctx>
void check_rounded_once(Ctx& context) {
  const auto grid = make_grid<Grid2D<>>(context, 2, 2);
  using P = Summa2D<>;
  // The sum of 6 large and 6 small products; each panel's own rounding would lose the small ones.
  const auto fa = [](index_t, index_t j) { return j % 2 == 0 ? 64.0F : 0.25F; };
  const auto fb = [](index_t, index_t) { return 1.0F; };
  const auto a = from_function<S, P>(grid, {5, 12}, fa);
  const auto b = from_function<S, P>(grid, {12, 3}, fb);
  const S wanted(6 * 64.0F + 6 * 0.25F);
  for (const MatmulOptions& options : {MatmulOptions{}, MatmulOptions{.panel_width = 1}}) {
    const auto whole = gather(matmul(a, b, options));
    for (const S x : whole.elements) CHECK(x == wanted);
  }
  // Stationary A and B reduce fp32 partial products.
  const auto x = gather(matmul(a, transposed(from_function<S, P>(grid, {3, 12}, fb)), MatmulOptions{.panel_width = 1}));
  for (const S v : x.elements) CHECK(v == wanted);
  // beta reads the 16-bit value, and the result is rounded once.
  auto c = from_function<S, P>(grid, {5, 3}, [](index_t, index_t) { return 2.0F; });
  matmul_into(c, a, b, 1.0F, 0.5F);
  const auto with_beta = gather(c);
  for (const S v : with_beta.elements) CHECK(v == S(385.5F + 1.0F));
}

/// P01: bfloat16 partial sums are added in fp32 and rounded once; kept pending, a sum is stored in fp32. On 1, 2 or 4
/// ranks.
template <class Ctx>
void check_pending_in_fp32(Ctx& context) {
  const auto grid = make_grid<TpGrid<>>(context, context.size());
  const auto x = from_function<bfloat16, ColumnShard<>>(grid, {1, 4}, [](index_t, index_t) { return 1.0F; });
  const auto w =
      from_function<bfloat16, RowShard<>>(grid, {4, 1}, [](index_t i, index_t) { return i == 0 ? 256.0F : 1.0F; });
  CHECK(static_cast<float>(elements_of(matmul(x, w))(0, 0)) == 260);
  using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
  const auto pending = matmul<Pending>(x, w);
  static_assert(std::is_same_v<typename std::remove_const_t<decltype(pending)>::value_type, float>);
  CHECK(elements_of(all_reduce(pending))(0, 0) == 259);  // no bfloat16 has this value
}

/// Complex operands: transposed, adjoint, and what has no view. On 4 ranks.
template <class Ctx>
void check_complex_operands(Ctx& context) {
  using C = std::complex<double>;
  const auto grid = make_grid<Grid2D<>>(context, 2, 2);
  const auto f = [](index_t i, index_t j) {
    return C(static_cast<double>(fill_a(i, j)), static_cast<double>(fill_b(i, j)));
  };
  const auto a = from_function<C, Summa2D<>>(grid, {5, 6}, f);
  const auto check = [&](const Matrix<C>& found, auto left, auto right, index_t k) {
    bool equal = true;
    for (index_t i = 0; i < found.shape.rows; ++i) {
      for (index_t j = 0; j < found.shape.cols; ++j) {
        C sum{};
        for (index_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
        equal = equal && found(i, j) == sum;
      }
    }
    CHECK(equal);
  };
  const auto t = [&](index_t i, index_t j) { return f(j, i); };
  const auto h = [&](index_t i, index_t j) { return std::conj(f(j, i)); };
  check(gather(matmul(a, transposed(a))), f, t, 6);
  check(gather(matmul(a, adjoint(a))), f, h, 6);
  check(gather(matmul(transposed(a), a)), t, f, 5);
  check(gather(matmul(adjoint(a), a)), h, f, 5);
  check(gather(matmul(transposed(transposed(a)),
                      adjoint(adjoint(a)).orientation == Orientation::as_stored ? transposed(a) : adjoint(a))),
        f, t, 6);
  CHECK_THROWS_AS((void)transposed(adjoint(a)), ArgumentError);
  CHECK_THROWS_AS((void)adjoint(transposed(a)), ArgumentError);
}

}  // namespace partita::test
