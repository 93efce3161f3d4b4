// SPDX-License-Identifier: Apache-2.0
// Tensors of ranks that share a device: products by type, moves between partitions, sums, files; repeats and failures.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "partita/comm/cuda_thread/launch.hpp"
#include "partita/matmul/across.hpp"
#include "partita/matmul/explain.hpp"
#include "partita/tensor/from_blocks.hpp"
#include "partita/tensor/npy.hpp"
#include "partita/tensor/pending.hpp"
#include "partita/tensor/to.hpp"
#include "support/device_case.hpp"
#include "support/fills.hpp"
#include "support/threads.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::test {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;
using PlainContext = Context<CudaBackend, CudaThreadComm>;

/// Calls body(context) on each rank of device 0.
template <class Body>
void on_device(int ranks, Body body) {
  launch_on_device(ranks, [&](CudaThreadComm& comm) {
    const auto timeline = comm.timeline();
    PlainContext context(std::move(comm), CudaBackend(timeline, small_workspace()));
    body(context);
  });
}

void same_on(int rank, bool same, const char* what) {
  if (!same) FAIL(std::string(what), " is wrong on rank ", rank);
}

/// All pairs of the table on one grid, with alpha 2 and beta -1.
template <class T, class Grid>
struct TablePairs {
  const Grid& grid;

  template <class P>
  void operator()(P) const {
    constexpr index_t m = 9;
    constexpr index_t n = 7;
    constexpr index_t k = 10;
    const auto at = [](auto f) { return [f](index_t i, index_t j) { return static_cast<double>(f(i, j)); }; };
    for (const PanelMove move : {PanelMove::broadcast, PanelMove::all_gather}) {
      MatmulOptions options{.panel_width = 2};
      options.panels = move;
      const Matrix<T> c = table_product<T, P>(grid, m, n, k, at(fill_a), at(fill_b), at(fill_c), T(2), T(-1), options);
      Matrix<T> expected = serial_product<T>(m, n, k, at(fill_a), at(fill_b));
      for (index_t i = 0; i < m; ++i) {
        for (index_t j = 0; j < n; ++j) {
          expected(i, j) = T(2) * expected(i, j) - static_cast<T>(static_cast<double>(fill_c(i, j)));
        }
      }
      same_on(grid.context().rank(), c.elements == expected.elements, "a product of the table");
    }
  }
};

TEST_CASE("The multiplication table on one device") {
  const Fresh fresh(cuda_emulation::with(Progress::normal, 1));
  on_device(3, [](PlainContext& context) {
    const auto grid = make_grid<TpGrid<>>(context, 3);
    for_pairs_1d(TablePairs<float, decltype(grid)>{grid});
  });
  on_device(4, [](PlainContext& context) {
    const auto grid = make_grid<Grid2D<>>(context, 2, 2);
    for_pairs_2d(TablePairs<double, decltype(grid)>{grid});
  });
  on_device(8, [](PlainContext& context) {
    const auto grid = make_grid<Grid25D<>>(context, 2, 2, 2);
    for_pairs_25d(TablePairs<std::complex<double>, decltype(grid)>{grid});
  });
}

TEST_CASE("16-bit products, adjoints, clones and views of the user's memory on one device") {
  const Fresh fresh;
  on_device(4, [](PlainContext& context) {
    const auto grid = make_grid<Summa2D<2, 2>>(context);
    const auto a = from_function<bfloat16, Summa2D<2, 2>>(
        grid, {6, 5}, [](index_t i, index_t j) { return static_cast<float>(fill_a(i, j)); });
    const auto b = from_function<bfloat16, Summa2D<2, 2>>(
        grid, {5, 4}, [](index_t i, index_t j) { return static_cast<float>(fill_b(i, j)); });
    const auto c = gather(matmul(a, b));
    for (index_t i = 0; i < 6; ++i) {
      for (index_t j = 0; j < 4; ++j) {
        float sum = 0;
        for (index_t l = 0; l < 5; ++l) sum += static_cast<float>(fill_a(i, l) * fill_b(l, j));
        same_on(context.rank(), static_cast<float>(c(i, j)) == static_cast<float>(bfloat16(sum)), "a bf16 product");
      }
    }
    auto copy = a.clone();
    const auto wrapped = wrap<Summa2D<2, 2>>(grid, {6, 5}, copy.local().data, copy.local().ld);
    same_on(context.rank(), gather(wrapped).elements == gather(a).elements, "a view of the user's memory");
    const auto z = random_uniform<std::complex<double>, Summa2D<2, 2>>(grid, {4, 4}, 7);
    const auto h = gather(matmul(adjoint(z), z));
    same_on(context.rank(), h(1, 2) == std::conj(h(2, 1)) || std::abs(h(1, 2) - std::conj(h(2, 1))) < 1e-12,
            "a product with an adjoint");
  });
}

TEST_CASE("Tensors move between partitions and grids on one device, and products reach across them") {
  const Fresh fresh;
  on_device(4, [](PlainContext& context) {
    const auto grid = make_grid<Summa2D<2, 2>>(context);
    const auto line = make_grid<RowShard<4>>(context);
    const auto value = [](index_t i, index_t j) { return static_cast<double>(fill_a(i, j)); };
    const auto x = from_function<double, Summa2D<2, 2>>(grid, {7, 9}, value);
    auto rows = redistribute<RowShard<4>>(x, line);
    const auto cols = redistribute<ColumnShard<4>>(rows);
    const auto all = redistribute<Replicated<4>>(cols);
    const auto own = redistribute<ColumnShard<4>>(all);  // nothing moves
    const auto back = redistribute<Summa2D<2, 2>>(own, grid);
    same_on(context.rank(), gather(back).elements == gather(x).elements, "a redistributed tensor");
    const auto y = from_function<double, ColumnShard<4>>(
        line, {9, 5}, [](index_t i, index_t j) { return static_cast<double>(fill_b(i, j)); });
    const auto c = matmul_across<Summa2D<2, 2>>(grid, x, y);
    auto d = from_function<double, Summa2D<2, 2>>(grid, {7, 5}, value);
    MatmulOptions options;
    options.panel_width = 2;
    matmul_across_into(d, x, y, 1.0, 0.0, options);
    const auto expected = serial_product<double>(7, 5, 9, value, [](index_t i, index_t j) { return fill_b(i, j); });
    same_on(context.rank(), gather(c).elements == expected.elements, "a product across grids");
    same_on(context.rank(), gather(d).elements == expected.elements, "a product across grids, in panels");
    Matrix<double> whole;
    if (context.rank() == 2) whole = expected;
    const auto spread = scatter<Summa2D<2, 2>>(grid, {7, 5}, View<const double>(whole.view()), 2);
    same_on(context.rank(), gather(spread).elements == expected.elements, "a scattered matrix");
    const auto blocks = from_blocks<RowShard<4>>(line, rows.local());
    same_on(context.rank(), blocks.shape() == Shape{7, 9} && gather(blocks).elements == gather(x).elements,
            "a tensor from blocks");
    const std::string path = "device_tensor.npy";
    save_npy(x, path);
    context.comm().barrier();
    const auto loaded = load_npy<double, RowShard<4>>(line, path);
    same_on(context.rank(), gather(loaded).elements == gather(x).elements, "a tensor from a file");
    context.comm().barrier();
    if (context.rank() == 0) std::remove(path.c_str());
  });
}

TEST_CASE("Pending sums are finished on one device") {
  const Fresh fresh;
  on_device(3, [](PlainContext& context) {
    using Left = ColumnShard<3>;
    using Right = RowShard<3>;
    using Pending = Partition<TpGrid<3>, RowsOver<>, ColsOver<>, PartialOver<Tp>>;
    const auto grid = make_grid<Left>(context);
    const auto fa = [](index_t i, index_t j) { return static_cast<float>(fill_a(i, j)); };
    const auto fb = [](index_t i, index_t j) { return static_cast<float>(fill_b(i, j)); };
    const auto a = from_function<float, Left>(grid, {5, 8}, fa);
    const auto b = from_function<float, Right>(grid, {8, 7}, fb);
    const auto expected = serial_product<float>(5, 7, 8, fa, fb);
    auto pending = matmul<Pending>(a, b);
    same_on(context.rank(), gather(all_reduce(pending)).elements == expected.elements, "all_reduce");
    same_on(context.rank(), gather(reduce_scatter<RowShard<3>>(pending)).elements == expected.elements,
            "reduce_scatter");
    auto sum = begin_sum<Replicated<3>>(std::move(pending));
    same_on(context.rank(), gather(sum.wait()).elements == expected.elements, "a sum under way");
    same_on(context.rank(), gather(matmul<RowShard<3>>(a, b)).elements == expected.elements, "a scattered product");
  });
}

TEST_CASE("Twenty repeats give the same bits, and those of every rank") {
  const Fresh fresh;
  Matrix<float> first;
  for (int repeat = 0; repeat < 20; ++repeat) {
    on_device(4, [&](PlainContext& context) {
      const auto grid = make_grid<Grid2D<>>(context, 2, 2);
      const auto a = random_uniform<float, Summa2D<>>(grid, {13, 17}, 1);
      const auto b = random_uniform<float, Summa2D<>>(grid, {13, 17}, 2);
      const auto c = gather(matmul(transposed(a), b, {.panel_width = 4}));
      if (context.rank() == 0 && repeat == 0) first = c;
      context.comm().barrier();
      same_on(context.rank(), same_bits(c, first), "a repeated product");
    });
  }
}

TEST_CASE("A product waits for no stream, and allocates no device memory after the first") {
  const Fresh fresh(cuda_emulation::with(Progress::latest, 1));
  on_device(4, [](PlainContext& context) {
    const auto grid = make_grid<Summa2D<2, 2>>(context);
    const auto a = from_function<float, Summa2D<2, 2>>(grid, {8, 8}, fill_a);
    auto c = from_function<float, Summa2D<2, 2>>(grid, {8, 8}, fill_c);
    context.sync();
    matmul_into(c, a, transposed(a));
    context.comm().barrier();
    const auto blocks = cuda_emulation::live().device_blocks;
    context.comm().barrier();
    matmul_into(c, a, transposed(a));
    same_on(context.rank(), cudaStreamQuery(context.comm().timeline()->compute()) == cudaErrorNotReady, "a stream");
    context.comm().barrier();
    same_on(context.rank(), cuda_emulation::live().device_blocks == blocks, "the number of blocks");
    context.comm().barrier();
  });
}

/// Products that come in, go out, and end in a sum.
void some_products(CudaThreadComm& comm) {
  const auto timeline = comm.timeline();
  PlainContext context(std::move(comm), CudaBackend(timeline, small_workspace()));
  const auto grid = make_grid<Summa2D<2, 1>>(context);
  const auto a = from_function<float, Summa2D<2, 1>>(grid, {4, 4}, fill_a);
  const auto line = make_grid<RowShard<2>>(context);
  const auto x = redistribute<ColumnShard<2>>(a, line);
  const auto y = redistribute<RowShard<2>>(a, line);
  const auto c = matmul(a, a);
  const auto d = matmul(transposed(a), a);
  const auto e = matmul(x, y);
  context.sync();
}

TEST_CASE("Every call of CUDA and cuBLAS in a product, made to fail, is a typed error on all ranks") {
  using cuda_emulation::Library;
  cuda_emulation::Counters calls;
  {
    const Fresh fresh;
    launch_on_device(2, some_products);
    calls = cuda_emulation::counters();
  }
  const auto check = [](Library library, std::int64_t count, int code) {
    for (std::int64_t n = 1; n <= count; ++n) {
      CAPTURE(n);
      const Fresh fresh;
      cuda_emulation::fail_call({library, n, code, "", cuda_emulation::any_device, false});
      bool thrown = false;
      try {
        launch_on_device(2, some_products);
      } catch (const Error&) {
        thrown = true;
      }
      CHECK((thrown || cuda_emulation::counters().faults <= 1));  // one in a destructor is told to nobody
    }
  };
  check(Library::cuda, calls.cuda, cudaErrorLaunchFailure);
  check(Library::cublas, calls.cublas, CUBLAS_STATUS_EXECUTION_FAILED);
}

TEST_CASE("A rank that throws between products frees its peers") {
  for (int when = 0; when < 4; ++when) {
    const Fresh fresh;
    CHECK_THROWS_WITH(launch_on_device(3,
                                       [when](CudaThreadComm& comm) {
                                         const auto timeline = comm.timeline();
                                         PlainContext context(std::move(comm),
                                                              CudaBackend(timeline, small_workspace()));
                                         const auto grid = make_grid<RowShard<3>>(context);
                                         const auto a = from_function<float, RowShard<3>>(grid, {6, 6}, fill_a);
                                         const auto b = from_function<float, ColumnShard<3>>(grid, {6, 6}, fill_b);
                                         for (int i = 0; i < 4; ++i) {
                                           if (i == when && context.rank() == 1) throw std::runtime_error("boom");
                                           const auto c = matmul(a, b);
                                         }
                                       }),
                      "boom");
    CHECK(cuda_emulation::live().total() == 0);
  }
}

}  // namespace
}  // namespace partita::test
