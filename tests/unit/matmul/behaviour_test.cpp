// SPDX-License-Identifier: Apache-2.0
// What is fixed about products: errors that all ranks share, NaN where it belongs, results as asked for, options.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/copying_comm.hpp"
#include "support/failing_comm.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

/// Text of the error E that f throws on this rank; the communicator must be usable afterwards.
template <class E, class Ctx, class F>
std::string error_of(Ctx& context, F f) {
  std::string text = "nothing was thrown";
  try {
    f();
  } catch (const E& error) {
    text = error.what();
  } catch (const std::exception& error) {
    text = std::string("another type: ") + error.what();
  }
  int sum = 1;
  context.comm().all_reduce(row_view(&sum, 1), row_view(&sum, 1)).wait();
  CHECK(sum == context.size());
  return text;
}

TEST_CASE("bad arguments throw one error on all ranks, before any write, and the communicator stays usable") {
  on_ranks(4, [](ThreadContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    const auto a = from_function<double, P>(grid, {5, 4}, fill_a);
    const auto b = from_function<double, P>(grid, {4, 7}, fill_b);
    const auto b6 = from_function<double, P>(grid, {6, 7}, fill_b);
    auto c = from_function<double, P>(grid, {5, 7}, fill_c);
    CHECK(error_of<ShapeError>(context, [&] { (void)matmul(a, b6); }) ==
          "ShapeError: matmul of 5x4 by 6x7: the left operand has 4 columns, the right one 6 rows");
    CHECK(
        error_of<ShapeError>(context, [&] { matmul_into(c, a, b6); }).starts_with("ShapeError: matmul of 5x4 by 6x7"));
    auto c65 = zeros<double, P>(grid, {6, 5});
    CHECK(error_of<ShapeError>(context, [&] { matmul_into(c65, a, b); }) ==
          "ShapeError: matmul of 5x4 by 4x7 gives 5x7, the result passed has 6x5");
    CHECK(error_of<ShapeError>(context, [&] { matmul_into(c, transposed(a), b); }).find("4x5 by 4x7") !=
          std::string::npos);
    // Units.
    const auto a2 = from_function<double, P>(grid, {5, 4}, fill_a, Units{3, 2});
    const auto b2 = from_function<double, P>(grid, {4, 7}, fill_b, Units{2, 5});
    CHECK(error_of<UnitError>(context, [&] { matmul_into(c, a2, b2); })
              .find("the product's are 3 (rows of the left operand) and 5 (columns of the right one)") !=
          std::string::npos);
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
    // Another grid of the same ranks.
    const auto wide = make_grid<Grid2D<>>(context, 1, 4);
    const auto b_wide = from_function<double, P>(wide, {4, 7}, fill_b);
    CHECK(error_of<GridError>(context, [&] { (void)matmul(a, b_wide); }).find("{Row 2, Col 2} and {Row 1, Col 4}") !=
          std::string::npos);
    auto c_wide = zeros<double, P>(wide, {5, 7});
    CHECK(error_of<GridError>(context, [&] { matmul_into(c_wide, a, b); }).starts_with("GridError"));
    // Nothing was written.
    bool untouched = true;
    for (index_t i = 0; i < 5; ++i) {
      for (index_t j = 0; j < 7; ++j) {
        const Block block = c.block();
        if (block.rows.contains(i) && block.cols.contains(j)) {
          untouched =
              untouched && c.local()(i - block.rows.begin, j - block.cols.begin) == static_cast<double>(fill_c(i, j));
        }
      }
    }
    CHECK(untouched);
    matmul_into(c, a, b);
    CHECK(same_bits(gather(c), serial_product<double>(5, 7, 4, fill_a, fill_b)));
    // Operands on two grid objects that arrange the ranks alike, one with fixed extents.
    const auto fixed = make_grid<Summa2D<2>>(context);
    const auto b_fixed = from_function<double, Summa2D<2>>(fixed, {4, 7}, fill_b);
    const auto met = matmul(a, b_fixed);
    static_assert(std::is_same_v<std::remove_const_t<decltype(met)>::partition, Summa2D<2>>);
    CHECK(same_bits(gather(met), gather(c)));
  });
}

TEST_CASE("a NaN in one element of A reaches its row of C, one in B its column, and no other element") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, inf}) {
    const auto check = [bad, nan](const TableProduct& product) {
      const index_t m = 9, n = 8, k = 7;
      const auto ones = [](index_t, index_t) { return 1.0; };
      const auto row = product.multiply(
          m, n, k, [bad](index_t i, index_t j) { return i == 4 && j == 5 ? bad : 1.0; }, ones, ones, 2.0, 1.0);
      const auto col = product.multiply(
          m, n, k, ones, [bad](index_t i, index_t j) { return i == 6 && j == 3 ? bad : 1.0; }, ones, 2.0, 1.0);
      const auto old =
          product.multiply(m, n, k, ones, ones, [nan](index_t i, index_t j) { return i == j ? nan : 1.0; }, 2.0, 1.0);
      bool right = true;
      for (index_t i = 0; i < m; ++i) {
        for (index_t j = 0; j < n; ++j) {
          right = right &&
                  (i == 4 ? !std::isfinite(row(i, j)) && std::isnan(row(i, j)) == std::isnan(bad) : row(i, j) == 15);
          right = right &&
                  (j == 3 ? !std::isfinite(col(i, j)) && std::isnan(col(i, j)) == std::isnan(bad) : col(i, j) == 15);
          right = right && (i == j ? std::isnan(old(i, j)) : old(i, j) == 15);
        }
      }
      CHECK(right);
      // alpha = 0 reads neither operand, beta = 0 not the old result.
      const auto bads = [bad](index_t, index_t) { return bad; };
      const auto kept = product.multiply(m, n, k, bads, bads, fill_c, 0.0, 3.0);
      const auto zero = product.multiply(m, n, k, bads, bads, bads, 0.0, 0.0);
      for (index_t i = 0; i < m; ++i) {
        for (index_t j = 0; j < n; ++j) {
          right = right && kept(i, j) == 3 * static_cast<double>(fill_c(i, j)) && zero(i, j) == 0;
        }
      }
      CHECK(right);
    };
    for_table({3, 2, 2, 2}, check);
  }
}

TEST_CASE("the result asked for: all_reduced, scattered over rows or columns, or kept pending") {
  on_ranks(3, [](ThreadContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 3);
    const auto a = from_function<double, ColumnShard<>>(grid, {7, 8}, fill_a);
    const auto b = from_function<double, RowShard<>>(grid, {8, 5}, fill_b);
    const auto wanted = serial_product<double>(7, 5, 8, fill_a, fill_b);
    const auto sum = matmul(a, b);
    static_assert(std::is_same_v<std::remove_const_t<decltype(sum)>::partition, Replicated<>>);
    CHECK(same_bits(gather(sum), wanted));
    CHECK(same_bits(gather(matmul<Replicated<>>(a, b)), wanted));
    const auto rows = matmul<RowShard<>>(a, b);
    CHECK(rows.local().rows == balanced_part({0, 7}, 3, context.rank()).size());
    CHECK(same_bits(gather(rows), wanted));
    const auto cols = matmul<ColumnShard<3>>(a, b);
    CHECK(cols.local().cols == balanced_part({0, 5}, 3, context.rank()).size());
    CHECK(same_bits(gather(cols), wanted));
    using Pending = Partition<TpGrid<>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
    const auto kept = matmul<Pending>(a, b);
    Matrix<double> total(Shape{7, 5});
    context.comm().all_reduce(kept.local(), total.view()).wait();
    CHECK(same_bits(total, wanted));
    // Into a result with these partitions, with beta.
    auto c = from_function<double, RowShard<>>(grid, {7, 5}, fill_c);
    matmul_into(c, a, b, 2, -3);
    const auto found = gather(c);
    bool right = true;
    for (index_t i = 0; i < 7; ++i) {
      for (index_t j = 0; j < 5; ++j)
        right = right && found(i, j) == 2 * wanted(i, j) - 3 * static_cast<double>(fill_c(i, j));
    }
    CHECK(right);
  });
  on_ranks(8, [](ThreadContext& context) {  // scattered over Depth behind the axes that are there
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    const auto a = from_function<double, SplitKLeft<>>(grid, {9, 8}, fill_a);
    const auto b = from_function<double, SplitKRight<>>(grid, {8, 5}, fill_b);
    const auto wanted = serial_product<double>(9, 5, 8, fill_a, fill_b);
    CHECK(same_bits(gather(matmul<Partition<Grid25D<>, RowsOver<Row, Depth>, ColsOver<Col>>>(a, b)), wanted));
    CHECK(same_bits(gather(matmul<Partition<Grid25D<>, RowsOver<Row>, ColsOver<Col, Depth>>>(a, b)), wanted));
    CHECK(same_bits(gather(matmul<Summa25DWeight<>>(a, b)), wanted));
  });
}

TEST_CASE_TEMPLATE("16-bit products: rounded once, and pending sums stored in fp32", S, half, bfloat16) {
  on_ranks(4, [](ThreadContext& context) {
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
    const auto x =
        gather(matmul(a, transposed(from_function<S, P>(grid, {3, 12}, fb)), MatmulOptions{.panel_width = 1}));
    for (const S v : x.elements) CHECK(v == wanted);
    // beta reads the 16-bit value, and the result is rounded once.
    auto c = from_function<S, P>(grid, {5, 3}, [](index_t, index_t) { return 2.0F; });
    matmul_into(c, a, b, 1.0F, 0.5F);
    const auto with_beta = gather(c);
    for (const S v : with_beta.elements) CHECK(v == S(385.5F + 1.0F));
  });
}

TEST_CASE("complex operands: transposed, adjoint, and what has no view") {
  using C = std::complex<double>;
  on_ranks(4, [](ThreadContext& context) {
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
  });
}

TEST_CASE("a workspace cap: the right result, within the cap as measured, or CapacityError on all ranks") {
  using Ctx = Context<EigenBackend, FailingComm<CopyingComm<ThreadComm>>>;
  launch_threads(4, [](ThreadComm& comm) {
    Ctx context{FailingComm<CopyingComm<ThreadComm>>(CopyingComm<ThreadComm>(std::move(comm)))};
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    using P = Summa2D<>;
    const auto a = from_function<double, P>(grid, {16, 16}, fill_a);
    const auto wanted = serial_product<double>(16, 16, 16, fill_a, fill_a);
    const auto wanted_t = serial_product<double>(16, 16, 16, fill_a, [](index_t i, index_t j) { return fill_a(j, i); });
    auto c = zeros<double, P>(grid, {16, 16});
    auto& allocations = context.comm().allocations();
    // Scratch memory is kept and grows, so the caps rise; what was had before counts too. 8 rows of a panel of one
    // column, two operands, two in flight: 8·8·2·2 = 256 bytes.
    for (const index_t cap : {256, 300, 640, 1024, 4096}) {
      const index_t before = allocations.bytes;
      MatmulOptions options{.workspace_bytes = cap};
      matmul_into(c, a, a, 1, 0, options);
      CHECK(same_bits(gather(c), wanted));
      matmul_into(c, a, transposed(a), 1, 0, options);
      CHECK(same_bits(gather(c), wanted_t));
      CHECK(allocations.bytes - before <= 2 * cap);  // of both products together
      CHECK(allocations.bytes > 0);
    }
    const index_t before = allocations.bytes;
    CHECK(error_of<CapacityError>(context, [&] {
            matmul_into(c, a, a, 1, 0, MatmulOptions{.workspace_bytes = 255});
          }) == "CapacityError: matmul may use 255 bytes of scratch memory; panels of width 1 need 256");
    CHECK(error_of<CapacityError>(context, [&] {
            (void)matmul(a, a, MatmulOptions{.workspace_bytes = 0});
          }).starts_with("CapacityError"));
    CHECK(allocations.bytes - before <= 8 * 64);  // the result of the refused matmul, no scratch
  });
}

TEST_CASE("a workspace cap holds for panels by all-gather into an old result too") {
  using Ctx = Context<EigenBackend, FailingComm<CopyingComm<ThreadComm>>>;
  launch_threads(4, [](ThreadComm& comm) {
    Ctx context{FailingComm<CopyingComm<ThreadComm>>(CopyingComm<ThreadComm>(std::move(comm)))};
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    const auto a = from_function<double, Summa2D<>>(grid, {64, 64}, fill_a);
    auto c = zeros<double, Summa2D<>>(grid, {64, 64});
    const index_t cap = 6000;
    const MatmulOptions options{.panel_width = 2, .panels = PanelMove::all_gather, .workspace_bytes = cap};
    const index_t before = context.comm().allocations().bytes;
    try {
      matmul_into(c, a, transposed(a), 1, 1, options);
      CHECK(gather(c).shape == Shape{64, 64});
    } catch (const CapacityError&) {  // honest as well
    }
    CHECK(context.comm().allocations().bytes - before <= cap);
  });
}

TEST_CASE("more panels in flight than the communicator takes: right, or refused on all ranks") {
  for (const int lookahead : {8, 40, 100, 1000}) {
    CAPTURE(lookahead);
    std::string error;
    try {
      on_ranks(4, [&](ThreadContext& context) {
        const auto grid = make_grid<Grid2D<>>(context, 2, 2);
        const auto a = from_function<double, Summa2D<>>(grid, {6, 300}, fill_a);
        const auto b = from_function<double, Summa2D<>>(grid, {300, 6}, fill_b);
        bool refused = false;
        Matrix<double> whole;
        try {
          whole = gather(matmul(a, b, MatmulOptions{.panel_width = 1, .lookahead = lookahead}));
        } catch (const ArgumentError&) {
          refused = true;
        }
        context.comm().barrier();
        CHECK((refused || same_bits(whole, serial_product<double>(6, 6, 300, fill_a, fill_b))));
      });
    } catch (const std::exception& e) {
      error = e.what();
    }
    CHECK(error == "");
  }
}

TEST_CASE("explain: the pair, the algorithm, the steps of this rank and their price") {
  on_ranks(4, [](ThreadContext& context) {
    const auto grid = make_grid<Summa2D<2>>(context);
    const auto a = zeros<float, Summa2D<2>>(grid, {4, 6});
    const auto b = zeros<float, Summa2D<2>>(grid, {6, 8});
    const auto text = explain(a, b);
    if (context.rank() == 1) {
      INFO(text);
      CHECK(text.starts_with(
          "matmul Summa2D x Summa2D -> Summa2D\n"
          "stationary C: each k-panel of A broadcast along Col, each k-panel of B broadcast along Row\n"
          "m 4, n 8, k 6 on Grid<Row 2, Col 2>; rank 1:\n"
          "  broadcast A[0:2, 0:3] along Col from 0\n"
          "  broadcast B[0:3, 4:8] along Row from 0\n"));
      CHECK(text.find("  gemm C[0:2, 4:8] over k 0:3\n") != std::string::npos);
      CHECK(text.find("2 messages, 18 elements moved, 96 flops") != std::string::npos);
    }
    CHECK(explain(a, transposed(a))
              .starts_with("matmul Summa2D x transposed(Summa2D) -> Summa2D\nstationary A: each n-panel"
                           " of B broadcast along Row, partial products reduced along Col\n"));
    CHECK(explain(transposed(a), a)
              .find("stationary B: each m-panel of A broadcast along Col, partial products reduced "
                    "along Row\n") != std::string::npos);
    const auto line = make_grid<TpGrid<4>>(context);
    const auto x = zeros<float, ColumnShard<4>>(line, {4, 8});
    const auto w = zeros<float, RowShard<4>>(line, {8, 4});
    CHECK(explain(x, w).starts_with("matmul ColumnShard x RowShard -> Replicated\nlocal: all_reduce along Tp\n"));
    CHECK(explain<RowShard<4>>(x, w).find("local: reduce_scatter of rows along Tp\n") != std::string::npos);
    CHECK(explain(zeros<float, Replicated<4>>(line, {4, 8}), w).find("A sliced in place: all_reduce along Tp\n") !=
          std::string::npos);
    CHECK_THROWS_AS((void)explain(a, a), ShapeError);
  });
}

}  // namespace
}  // namespace partita::test
