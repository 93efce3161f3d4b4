// SPDX-License-Identifier: Apache-2.0
// What is fixed about products and tensors, on ranks with devices: the texts that ranks on the host are held to. The
// sizes at which blocks become empty are in sweep_test.cpp.
#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "partita/tensor/from_blocks.hpp"
#include "support/across_texts.hpp"
#include "support/construction_texts.hpp"
#include "support/cyclic_case.hpp"
#include "support/device_case.hpp"
#include "support/device_memory.hpp"
#include "support/exchange_case.hpp"
#include "support/memory_texts.hpp"
#include "support/product_texts.hpp"
#include "support/table_edges.hpp"

namespace partita::test {
namespace {

/// Every second machine runs its streams as late as it may.
bool next_is_late() {
  static int machines = 0;
  return ++machines % 2 == 0;
}

/// Calls body(context) on so many ranks of a fresh machine.
template <class Comm, class Body>
void on_fresh_ranks(int ranks, Body body) {
  if (!has_devices<Comm>(ranks)) return;
  CAPTURE(ranks);
  const DeviceMachine machine(devices_of<Comm>(ranks), next_is_late());
  on_device_ranks<Comm>(ranks, body);
}

/// Fewer rows, columns or panels than ranks, and none.
void check_small_sizes(const TableProduct& product) {
  for (const auto& [m, n, k] : {std::array<index_t, 3>{2, 5, 6}, {5, 2, 6}, {1, 5, 3}, {0, 3, 4}, {3, 0, 4}}) {
    const auto c = product.multiply(m, n, k, fill_a, fill_b, fill_c, 2, 1);
    auto wanted = serial_product<double>(m, n, k, fill_a, fill_b);
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < n; ++j) wanted(i, j) = 2 * wanted(i, j) + static_cast<double>(fill_c(i, j));
    }
    CHECK(same_bits(c, wanted));
  }
}

void check_table_edges(const TableProduct& product) {
  check_no_inner_dimension(product);
  check_old_result_unread(product);
  check_small_inner_dimension(product);
  check_one_element(product);
  check_bad_elements(product);
  check_small_sizes(product);
}

TEST_CASE_TEMPLATE("Devices: products at the edges of their sizes and values", Comm, CudaThreadComm, NcclComm) {
  const TableBody body = [](TableProduct& product) { check_table_edges(product); };
  for (const int ranks : {1, 2, 3, 4, 8}) {
    on_fresh_ranks<Comm>(ranks, [&](auto& context) {
      const auto grid = make_grid<TpGrid<>>(context, ranks);
      for_pairs_1d([&](auto pair) { call_for_pair<decltype(pair)>(grid, body); });
    });
  }
  for (const std::pair<int, int>& extents : {std::pair{1, 1}, std::pair{1, 3}, std::pair{2, 2}, std::pair{4, 2}}) {
    on_fresh_ranks<Comm>(extents.first * extents.second, [&](auto& context) {
      const auto grid = make_grid<Grid2D<>>(context, extents.first, extents.second);
      for_pairs_2d([&](auto pair) { call_for_pair<decltype(pair)>(grid, body); });
    });
  }
}

TEST_CASE_TEMPLATE("Devices: results asked for and pending sums, 16-bit and complex operands", Comm, CudaThreadComm,
                   NcclComm) {
  using Ctx = Context<CudaBackend, Comm>;
  for (const int ranks : {1, 2, 3, 4, 8}) on_fresh_ranks<Comm>(ranks, check_results_asked_for<Ctx>);
  for (const int ranks : {1, 2, 4}) on_fresh_ranks<Comm>(ranks, check_pending_in_fp32<Ctx>);
  on_fresh_ranks<Comm>(4, check_rounded_once<half, Ctx>);
  on_fresh_ranks<Comm>(4, check_rounded_once<bfloat16, Ctx>);
  on_fresh_ranks<Comm>(4, check_complex_operands<Ctx>);
}

TEST_CASE_TEMPLATE("Devices: bad arguments are one error on all ranks, before any write", Comm, CudaThreadComm,
                   NcclComm) {
  using Ctx = Context<CudaBackend, Comm>;
  on_fresh_ranks<Comm>(4, check_bad_arguments<Ctx>);
  on_fresh_ranks<Comm>(4, check_factors_across<Ctx>);
  on_fresh_ranks<Comm>(4, check_errors_across<Ctx>);
  on_fresh_ranks<Comm>(4, check_nothing_across<Ctx>);
}

TEST_CASE_TEMPLATE("Devices: what one rank cannot build, no rank builds, and all say why", Comm, CudaThreadComm,
                   NcclComm) {
  if (!has_devices<Comm>(4)) return;
  const DeviceMachine machine(devices_of<Comm>(4), false);
  launch_ranks<Comm>(4, [](Comm& comm) {
    const auto timeline = comm.timeline();
    Context<CudaBackend, FailingComm<Comm>> context(FailingComm<Comm>(std::move(comm)),
                                                    CudaBackend(timeline, small_backend()));
    check_what_one_rank_cannot_build(context);
  });
}

TEST_CASE_TEMPLATE("Devices: memory of the user's own, and results that share memory with operands", Comm,
                   CudaThreadComm, NcclComm) {
  using Ctx = Context<CudaBackend, Comm>;
  on_fresh_ranks<Comm>(2, check_padding<Ctx>);
  on_fresh_ranks<Comm>(2, check_read_only_and_column_major<Ctx>);
  for (const int ranks : {1, 4}) on_fresh_ranks<Comm>(ranks, check_operand_as_result<Ctx>);
  on_fresh_ranks<Comm>(4, check_shared_memory<Ctx>);
  for (const int ranks : {1, 4}) on_fresh_ranks<Comm>(ranks, check_memory_of_two<Ctx>);
}

/// A tensor over memory of the host, on one rank or on all.
template <class Ctx>
void check_host_memory_refused(Ctx& context) {
  const auto grid = make_grid<TpGrid<>>(context, context.size());
  std::vector<double> on_host(12, 1);
  UserMemory<double, Ctx> memory(context, 12, 1);
  for (const bool all : {false, true}) {
    double* const data = all || context.rank() == 1 ? on_host.data() : memory.data();
    CHECK(error_of<ShapeError>(context, [&] { (void)wrap<Replicated<>>(grid, {3, 4}, data, 4); }) ==
          "ShapeError: rank " + std::to_string(all ? context.size() - 1 : 1) +
              " of a DistTensor of 3x4 holds a block of 3x4, and was given memory that its device does not reach; copy "
              "a tensor of the host with to()");
  }
  CHECK(on_host == std::vector<double>(12, 1));
  const auto empty = wrap<RowShard<>>(grid, {0, 4}, on_host.data(), 4);  // of which nothing is touched
  CHECK(gather(empty).elements.empty());
  CHECK(gather(wrap<Replicated<>>(grid, {3, 4}, memory.data(), 4)).elements == std::vector<double>(12, 1));
}

TEST_CASE_TEMPLATE("Devices: a tensor over memory of the host is refused on all ranks", Comm, CudaThreadComm,
                   NcclComm) {
  on_fresh_ranks<Comm>(3, check_host_memory_refused<Context<CudaBackend, Comm>>);
}

TEST_CASE_TEMPLATE("Devices: between all partitions over three axes, uneven, empty and with units", Comm,
                   CudaThreadComm, NcclComm) {
  struct Setting {
    std::vector<int> extents;
    Shape shape;
    Units units;
  };
  const Setting settings[] = {{{2, 2, 2}, {7, 9}, {}}, {{1, 2, 3}, {2, 13}, {1, 3}}, {{3, 1, 1}, {11, 1}, {2, 1}}};
  const auto layouts = all_layouts();
  Failures failures;
  std::size_t first = 0;
  for (const Setting& setting : settings) {
    const int ranks = rank_count(setting.extents);
    ++first;
    if (!has_devices<Comm>(ranks)) continue;
    const DeviceMachine machine(devices_of<Comm>(ranks), first % 2 == 0);
    on_device_grid<Comm>(setting.extents, [&](ProcessGrid<DeviceContextOf<Comm>>& grid) {
      for (std::size_t pair = first; pair < layouts.size() * layouts.size(); pair += 10) {  // coprime to 49
        const Layout& from = layouts[pair / layouts.size()];
        const Layout& to = layouts[pair % layouts.size()];
        const Placement before{from, grid.axes(), grid.extents(), setting.units};
        const Placement after{to, grid.axes(), grid.extents(), {setting.units.cols, 1}};
        const std::string failure = check_exchange<std::int32_t>(grid.context(), setting.shape, before, after);
        if (!failure.empty()) {
          failures.add(layout_text(from, names_25d) + " to " + layout_text(to, names_25d) + ": " + failure);
        }
      }
    });
  }
  INFO(failures.text());
  CHECK(failures.count() == 0);
}

TEST_CASE_TEMPLATE("Devices: block-cyclic arrays of the host", Comm, CudaThreadComm, NcclComm) {
  if (has_devices<Comm>(6)) {
    const DeviceMachine machine(devices_of<Comm>(6), true);
    on_device_grid<Comm>({6}, [](auto& grid) { check_block_cyclic(grid.context()); });
  }
  on_fresh_ranks<Comm>(4, check_unsound_arrays<Context<CudaBackend, Comm>>);
}

/// Whole matrices in and out, blocks that ranks hold, and sizes of which most ranks have nothing.
template <class Ctx>
void check_tensors(Ctx& context) {
  const auto grid = make_grid<TpGrid<>>(context, context.size());
  for (const Shape shape : {Shape{13, 7}, Shape{2, 1}, Shape{0, 4}, Shape{1, 9}}) {
    for (const Units units : {Units{}, Units{4, 3}}) {
      Matrix<double> whole(shape);
      std::iota(whole.elements.begin(), whole.elements.end(), 1.0);
      const int root = static_cast<int>(shape.rows) % context.size();
      const bool is_root = context.rank() == root;
      const View<const double> held = is_root ? View<const double>(whole.view()) : View<const double>();
      const auto tensor = scatter<RowShard<>>(grid, shape, held, root, units);
      CHECK(same_bits(gather(tensor), whole));
      auto copy = tensor.clone();
      CHECK(!copy.identity().shares_memory_with(tensor.identity()));
      set_elements(copy, [](index_t, index_t) { return -1.0; });
      CHECK(same_bits(gather(tensor), whole));
      CHECK(same_bits(gather(redistribute<ColumnShard<>>(tensor)), whole));
    }
  }
  // One block too large, on the last rank: named on all.
  const index_t rows = context.rank() == context.size() - 1 ? 3 : 2;
  UserMemory<double, Ctx> memory(context, 6, 1);
  const View<double> block(memory.data(), rows, 2, 2);
  if (context.size() == 1) {
    CHECK(from_blocks<RowShard<>>(grid, block).shape() == Shape{3, 2});
  } else {
    CHECK(error_of<ShapeError>(context, [&] {
            (void)from_blocks<RowShard<>>(grid, block);
          }).find("rank " + std::to_string(context.size() - 1) + " holds 3x2") != std::string::npos);
  }
  const auto even = from_blocks<RowShard<>>(grid, View<double>(memory.data(), 2, 2, 2));
  CHECK(gather(even).elements == std::vector<double>(static_cast<std::size_t>(4 * context.size()), 1.0));
}

TEST_CASE_TEMPLATE("Devices: whole matrices and blocks, in and out", Comm, CudaThreadComm, NcclComm) {
  for (const int ranks : {1, 2, 3, 4, 8}) on_fresh_ranks<Comm>(ranks, check_tensors<Context<CudaBackend, Comm>>);
}

}  // namespace
}  // namespace partita::test
