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
#include "support/product_texts.hpp"
#include "support/table_edges.hpp"
#include "support/threads.hpp"

namespace partita::test {
namespace {

TEST_CASE("bad arguments throw one error on all ranks, before any write, and the communicator stays usable") {
  on_ranks(4, check_bad_arguments<ThreadContext>);
}

TEST_CASE("a NaN in one element of A reaches its row of C, one in B its column, and no other element") {
  for_table({3, 2, 2, 2}, check_bad_elements);
}

TEST_CASE("the result asked for: all_reduced, scattered over rows or columns, or kept pending") {
  on_ranks(3, check_results_asked_for<ThreadContext>);
  on_ranks(3, [](ThreadContext& context) {  // with extents that are fixed where the operands' are not
    const auto grid = make_grid<TpGrid<>>(context, 3);
    const auto a = from_function<double, ColumnShard<>>(grid, {7, 8}, fill_a);
    const auto b = from_function<double, RowShard<>>(grid, {8, 5}, fill_b);
    CHECK(same_bits(gather(matmul<ColumnShard<3>>(a, b)), serial_product<double>(7, 5, 8, fill_a, fill_b)));
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
  on_ranks(4, check_rounded_once<S, ThreadContext>);
}

TEST_CASE("complex operands: transposed, adjoint, and what has no view") {
  on_ranks(4, check_complex_operands<ThreadContext>);
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
