// SPDX-License-Identifier: Apache-2.0
// One configuration of a product on every rank of a device, against the serial result.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/comm/cuda_thread/launch.hpp"
#include "support/grids.hpp"
#include "support/host_order.hpp"
#include "support/mirrored_comm.hpp"
#include "support/product_case.hpp"

namespace partita::test {

/// Several ranks on one device.
using DeviceContext = Context<CudaBackend, CountingComm<CudaThreadComm>>;

inline Traffic touched(DeviceContext& context) { return context.comm().base().traffic(); }

/// The machine of the stand-ins is small.
inline CudaOptions small_workspace() {
  CudaOptions options;
  options.workspace_bytes = 4096;
  return options;
}

/// Calls body(ProcessGrid<DeviceContext>&) on each rank of a grid of ranks on device 0.
template <class Body>
void on_device_grid(const std::vector<int>& extents, Body body) {
  launch_on_device(rank_count(extents), [&](CudaThreadComm& comm) {
    const auto timeline = comm.timeline();
    DeviceContext context(CountingComm(std::move(comm)), CudaBackend(timeline, small_workspace()));
    AxisValues values{};
    for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
    ProcessGrid<DeviceContext> grid(context, axis_names(static_cast<int>(extents.size())), values);
    body(grid);
  });
}

/// A host block and its image on the device, gaps and all.
template <class T>
struct DeviceOperand {
  DeviceOperand(CudaBackend& backend, StoredOperand<T>& of) : host(of), mirror(backend) {
    mirror.name(whole());
    mirror.load();
    view = of.view.empty() ? of.view : mirror.at(of.view);
  }
  [[nodiscard]] View<T> whole() const { return row_view(host.memory.data(), static_cast<index_t>(host.memory.size())); }
  [[nodiscard]] MatrixOperand<T> operand() const { return {view, host.operand.transposed, host.operand.conjugated}; }
  StoredOperand<T>& host;
  Mirror mirror;
  View<T> view;
};

/// What the ranks of a case differ in from the serial result, as run_case() finds it among threads.
template <class T, class Ctx>
CaseResult run_device_case(ProcessGrid<Ctx>& grid, const ProductCase& c) {
  using Acc = accumulate_t<T>;
  Ctx& context = grid.context();
  CudaBackend& backend = context.backend();
  const ProductGeometry geometry = case_geometry<T>(grid, c);
  const ProductSchedule schedule(c.plan, geometry, fit_workspace(c.plan, geometry, c.options));
  CaseBlocks<T> blocks(grid, c, schedule);
  CaseResult found;
  {
    DeviceOperand<T> a(backend, blocks.a);
    DeviceOperand<T> b(backend, blocks.b);
    DeviceOperand<T> result(backend, blocks.result);
    const Traffic counted_before = context.comm().traffic();
    const Traffic touched_before = touched(context);
    execute(ProductCall<T, T, Ctx>{&grid, a.operand(), b.operand(), blocks.a_block, blocks.b_block, result.view,
                                   Acc(static_cast<float>(c.alpha)), Acc(static_cast<float>(c.beta))},
            schedule);
    // Operands may be written as soon as a product returns.
    backend.clear(a.view);
    backend.clear(b.view);
    found.failure =
        traffic_failure(c, schedule, context.comm().traffic() - counted_before, touched(context) - touched_before);
    result.mirror.store(result.whole());
    if (!c.plan.result.partial.empty()) {
      if constexpr (!is_storage_only_v<T>) {
        grid.comm(c.plan.result.partial).template all_reduce<T>(result.view, result.view, ReduceOp::sum).wait();
        result.mirror.store(blocks.result.view);
      }
    }
  }
  finish_case(grid, c, schedule, blocks, View<const T>(blocks.result.view), found);
  return found;
}

/// Scalar number 0 … 5, as in run_case_of().
template <class Ctx>
CaseResult run_device_case_of(int scalar, ProcessGrid<Ctx>& grid, const ProductCase& c) {
  switch (scalar) {
    case 0:
      return run_device_case<float>(grid, c);
    case 1:
      return run_device_case<double>(grid, c);
    case 2:
      return run_device_case<std::complex<float>>(grid, c);
    case 3:
      return run_device_case<std::complex<double>>(grid, c);
    case 4:
      return run_device_case<half>(grid, c);
    default:
      return run_device_case<bfloat16>(grid, c);
  }
}

}  // namespace partita::test
