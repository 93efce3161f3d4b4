// SPDX-License-Identifier: Apache-2.0
// Ranks on one device wait for each other's streams where they must, and nowhere else: each wait that is left out is a
// race that the stand-ins report.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/device_case.hpp"
#include "support/layouts.hpp"
#include "support/sweep_share.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::test {
namespace {

using cuda_emulation::Finding;
using cuda_emulation::Progress;

template <class Comm>
using Program = std::function<void(ProcessGrid<DeviceContextOf<Comm>>&)>;

/// Runs the program on each rank; `dropped`: this wait of rank `victim` is left out. The waits of each rank.
template <class Comm>
std::vector<std::int64_t> run(const std::vector<int>& extents, const Program<Comm>& program, int victim = -1,
                              std::int64_t dropped = 0) {
  cuda_emulation::reset(cuda_emulation::with(Progress::normal, rank_count(extents)));
  std::vector<std::int64_t> waits(static_cast<std::size_t>(rank_count(extents)));
  on_device_grid<Comm>(extents, [&](ProcessGrid<DeviceContextOf<Comm>>& grid) {
    const int rank = grid.context().rank();
    if (rank == victim) cuda_emulation::drop_own_wait(dropped);
    const std::int64_t before = cuda_emulation::own_waits();
    program(grid);
    waits[static_cast<std::size_t>(rank)] = cuda_emulation::own_waits() - before;
  });
  return waits;
}

/// Leaves out each wait of each rank, once; the frees at the end of `program` are a part of it.
template <class Comm>
std::int64_t check_each_wait(const std::string& name, const std::vector<int>& extents, const Program<Comm>& program) {
  CAPTURE(name);
  const std::vector<std::int64_t> waits = run<Comm>(extents, program);
  for (const auto& report : cuda_emulation::take_reports()) FAIL_CHECK(report.text);
  std::int64_t total = 0;
  for (int victim = 0; victim < rank_count(extents); ++victim) {
    for (std::int64_t n = 1; n <= waits[static_cast<std::size_t>(victim)]; ++n, ++total) {
      if (!in_share(total)) continue;
      CAPTURE(victim);
      CAPTURE(n);
      run<Comm>(extents, program, victim, n);
      const auto reports = cuda_emulation::take_reports();
      CHECK(!reports.empty());
      for (const auto& report : reports) CHECK(report.kind == Finding::race);
    }
  }
  return total;
}

struct Blocks {
  Memory memory;
  View<float> view;

  template <class Ctx>
  Blocks(Ctx& context, Shape shape)
      : memory(context.template allocate<float>(shape.size())), view(reinterpret_cast<float*>(memory.get()), shape) {
    context.backend().clear(view);
  }
};

/// A product of operands that are made on the device; then its result is read, and the operands are overwritten.
template <class Comm>
Program<Comm> product(const ProductCase& c) {
  using Ctx = DeviceContextOf<Comm>;
  return [c](ProcessGrid<Ctx>& grid) {
    Ctx& context = grid.context();
    const ProductGeometry geometry = case_geometry<float>(grid, c);
    const ProductSchedule schedule(c.plan, geometry, c.options);
    const Block a_block = block_of(c.a, {c.m, c.k}, {}, grid.extents(), grid.coordinates());
    const Block b_block = block_of(c.b, {c.k, c.n}, {}, grid.extents(), grid.coordinates());
    Blocks a(context, a_block.shape());
    Blocks b(context, b_block.shape());
    Blocks result(context, schedule.frame().result_block().shape());
    Blocks copy(context, result.view.shape());
    execute(
        ProductCall<float, float, Ctx>{
            &grid, {a.view}, {b.view}, a_block, b_block, result.view, 1.0F, static_cast<float>(c.beta)},
        schedule);
    context.backend().template copy<float>(result.view, copy.view);
    context.backend().clear(a.view);
    context.backend().clear(b.view);
  };
}

ProductCase sizes(const Layout& a, const Layout& b, index_t m, index_t n, index_t k) {
  ProductCase c;
  c.a = a;
  c.b = b;
  c.m = m;
  c.n = n;
  c.k = k;
  c.plan = plan_product(a, b);
  c.options.panel_width = 3;
  c.options.lookahead = 2;
  return c;
}

constexpr PanelMove both_moves[] = {PanelMove::broadcast, PanelMove::all_gather};

template <class Comm>
void check_incoming() {
  const Layout s = Summa2D<>::layout;
  std::int64_t total = 0;
  for (const PanelMove move : both_moves) {
    for (const int lookahead : {1, 2, 3}) {
      ProductCase c = sizes(s, s, 4, 4, 12);
      c.options.panels = move;
      c.options.lookahead = lookahead;
      total += check_each_wait<Comm>("stationary C", {2, 2}, product<Comm>(c));
    }
    ProductCase c = sizes(RowShard<>::layout, ColumnShard<>::layout, 6, 6, 4);
    c.options.panels = move;
    total += check_each_wait<Comm>("stationary B in one dimension", {3}, product<Comm>(c));
  }
  CHECK(total > 20);
}

template <class Comm>
void check_outgoing() {
  const Layout s = Summa2D<>::layout;
  const Layout t = transposed_t<Summa2D<>>::layout;
  std::int64_t total = 0;
  for (const PanelMove move : both_moves) {
    for (const int beta : {0, 1}) {
      ProductCase c = sizes(s, t, 8, 12, 4);
      c.options.panels = move;
      c.beta = beta;
      total += check_each_wait<Comm>("stationary A", {2, 2}, product<Comm>(c));
      c = sizes(t, s, 12, 8, 4);
      c.options.panels = move;
      c.beta = beta;
      total += check_each_wait<Comm>("stationary B", {2, 2}, product<Comm>(c));
    }
  }
  CHECK(total > 20);
}

template <class Comm>
void check_sums() {
  std::int64_t total = 0;
  const Layout left = SplitKLeft<>::layout;
  const Layout right = SplitKRight<>::layout;
  ProductCase c = sizes(left, right, 4, 4, 8);
  total += check_each_wait<Comm>("all_reduce over depth", {2, 1, 2}, product<Comm>(c));
  Layout scattered = c.plan.plan.natural;
  scattered.partial = {};
  scattered.rows.push_back(0);
  c.plan = plan_product(left, right, scattered);
  total += check_each_wait<Comm>("reduce_scatter over depth", {2, 1, 2}, product<Comm>(c));
  c = sizes(ColumnShard<>::layout, RowShard<>::layout, 5, 4, 6);
  total += check_each_wait<Comm>("all_reduce", {3}, product<Comm>(c));
  c.beta = 2;
  total += check_each_wait<Comm>("all_reduce, added", {3}, product<Comm>(c));
  c.plan = plan_product(c.a, c.b, RowShard<>::layout);
  total += check_each_wait<Comm>("reduce_scatter, added", {3}, product<Comm>(c));
  for (const index_t width : {1, 2}) {  // at first more panels than places for their sums
    for (const int beta : {0, 1}) {
      c = sizes(ColumnShard<>::layout, RowShard<>::layout, 5, 4, 6);
      c.beta = beta;
      c.options.sum_width = width;
      total += check_each_wait<Comm>("all_reduce of panels", {3}, product<Comm>(c));
      c.plan = plan_product(c.a, c.b, RowShard<>::layout);
      total += check_each_wait<Comm>("reduce_scatter of panels, of rows", {3}, product<Comm>(c));
      c.plan = plan_product(c.a, c.b, ColumnShard<>::layout);
      total += check_each_wait<Comm>("reduce_scatter of panels, of columns", {3}, product<Comm>(c));
    }
  }
  c = sizes(transposed_t<Summa25D<>>::layout, Summa25D<>::layout, 4, 4, 8);
  total += check_each_wait<Comm>("gradient of 2.5D", {2, 1, 2}, product<Comm>(c));
  CHECK(total > 20);
}

TEST_CASE("Each wait of a product on one device is needed: panels that come in") { check_incoming<CudaThreadComm>(); }
TEST_CASE("Each wait of a product on one device is needed: partial products") { check_outgoing<CudaThreadComm>(); }
TEST_CASE("Each wait of a product on one device is needed: pending sums") { check_sums<CudaThreadComm>(); }

TEST_CASE("Each wait of a product by NCCL is needed: panels that come in") { check_incoming<NcclComm>(); }
TEST_CASE("Each wait of a product by NCCL is needed: partial products") { check_outgoing<NcclComm>(); }
TEST_CASE("Each wait of a product by NCCL is needed: pending sums") { check_sums<NcclComm>(); }

TEST_CASE("Each wait between operations is needed") {
  const auto call = [](auto f) {
    return [f](ProcessGrid<DeviceContext>& grid) {
      DeviceContext& context = grid.context();
      Blocks x(context, {4, 6});
      Blocks y(context, {4, 6});
      f(context.comm(), x.view, y.view);
      Blocks copy(context, y.view.shape());
      context.backend().copy<float>(y.view, copy.view);
      context.backend().clear(x.view);
      context.backend().clear(y.view);
    };
  };
  using Comm = CountingComm<CudaThreadComm>;
  std::int64_t total = 0;
  total += check_each_wait<CudaThreadComm>("broadcast", {3}, call([](Comm& comm, View<float> x, View<float> y) {
                                             comm.broadcast(comm.rank() == 1 ? x : y, 1).wait();
                                           }));
  total += check_each_wait<CudaThreadComm>("all_reduce in place", {3}, call([](Comm& comm, View<float>, View<float> y) {
                                             comm.all_reduce(y, y, ReduceOp::sum).wait();
                                             comm.all_reduce(y, y, ReduceOp::max).wait();
                                           }));
  total += check_each_wait<CudaThreadComm>("reduce", {3}, call([](Comm& comm, View<float> x, View<float> y) {
                                             comm.reduce(x, y, 2, Into::overwrite).wait();
                                           }));
  total += check_each_wait<CudaThreadComm>(
      "exchange", {3}, call([](Comm& comm, View<float> x, View<float> y) {
        std::vector<View<const float>> sends;
        std::vector<View<float>> receives;
        for (index_t r = 0; r < 3; ++r) {
          sends.push_back(x.sub({{0, 4}, {2 * r, 2 * r + 2}}));
          receives.push_back(y.sub({{0, 4}, {2 * r, 2 * r + 2}}));
        }
        comm.all_to_all_v(std::span<const View<const float>>(sends), std::span<const View<float>>(receives)).wait();
      }));
  total += check_each_wait<CudaThreadComm>("messages", {3}, call([](Comm& comm, View<float> x, View<float> y) {
                                             auto sent = comm.send(x, (comm.rank() + 1) % 3, 4);
                                             comm.recv(y, (comm.rank() + 2) % 3, 4).wait();
                                             sent.wait();
                                           }));
  CHECK(total > 20);
}

}  // namespace
}  // namespace partita::test
