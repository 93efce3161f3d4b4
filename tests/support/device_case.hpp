// SPDX-License-Identifier: Apache-2.0
// One configuration of a product on every rank of a device, against the serial result.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/comm/cuda_thread/launch.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "support/grids.hpp"
#include "support/host_order.hpp"
#include "support/mirrored_comm.hpp"
#include "support/product_case.hpp"
#include "unit/cuda/support.hpp"

namespace partita::test {

/// Ranks on one device, or on a device each.
template <class Comm>
using DeviceContextOf = Context<CudaBackend, CountingComm<Comm>>;
using DeviceContext = DeviceContextOf<CudaThreadComm>;

template <class Comm>
Traffic touched(DeviceContextOf<Comm>& context) {
  return context.comm().base().traffic();
}

#ifdef PARTITA_TEST_CUDA_DEVICE
struct DeviceMachine {
  DeviceMachine(int, bool) {}
};
#else
/// A new machine whose streams run as they like, or as late as they may.
struct DeviceMachine : cuda_emulation::Fresh {
  DeviceMachine(int devices, bool late)
      : Fresh(cuda_emulation::with(late ? cuda_emulation::Progress::latest : cuda_emulation::Progress::normal,
                                   devices)) {}
};
#endif

/// How many devices a machine may have.
inline int cuda_devices() {
  int devices = 8;
  if constexpr (on_device) detail::cuda_check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return devices;
}

/// Calls body(comm) on each rank: on device 0, or rank r on device r.
template <class Comm, class Body>
void launch_ranks(int ranks, Body body) {
  if constexpr (std::is_same_v<Comm, CudaThreadComm>) {
    launch_on_device(ranks, body);
  } else {
    launch_devices(ranks, body);
  }
}

/// Calls body(Context<CudaBackend, Comm>&) on each rank.
template <class Comm, class Body>
void on_device_ranks(int ranks, Body body) {
  launch_ranks<Comm>(ranks, [&](Comm& comm) {
    const auto timeline = comm.timeline();
    Context<CudaBackend, Comm> context(std::move(comm), CudaBackend(timeline, small_backend()));
    body(context);
  });
}

/// Whether the machine has the devices for so many ranks; told where it has not.
template <class Comm>
bool has_devices(int ranks) {
  if (std::is_same_v<Comm, CudaThreadComm> || ranks <= cuda_devices()) return true;
  MESSAGE("SKIPPED: ", ranks, " ranks need a device each");
  return false;
}
/// How many devices so many ranks are on.
template <class Comm>
int devices_of(int ranks) {
  return std::is_same_v<Comm, CudaThreadComm> ? 1 : ranks;
}

/// Calls body(ProcessGrid<DeviceContextOf<Comm>>&) on each rank of a grid.
template <class Comm, class Body>
void on_device_grid(const std::vector<int>& extents, Body body) {
  launch_ranks<Comm>(rank_count(extents), [&](Comm& comm) {
    const auto timeline = comm.timeline();
    DeviceContextOf<Comm> context(CountingComm<Comm>(std::move(comm)), CudaBackend(timeline, small_backend()));
    AxisValues values{};
    for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
    ProcessGrid<DeviceContextOf<Comm>> grid(context, axis_names(static_cast<int>(extents.size())), values);
    body(grid);
  });
}

/// A host block and its image on the device, gaps and all.
template <class T>
struct DeviceOperand {
  template <class Comm>
  DeviceOperand(Comm& comm, StoredOperand<T>& of) : host(of) {
    mirror.name(row_view(host.memory.data(), static_cast<index_t>(host.memory.size())));
    mirror.load(comm);
    view = of.view.empty() ? of.view : mirror.at(of.view);
  }
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
    DeviceOperand<T> a(context.comm(), blocks.a);
    DeviceOperand<T> b(context.comm(), blocks.b);
    DeviceOperand<T> result(context.comm(), blocks.result);
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
    result.mirror.store();
    if (!c.plan.result.partial.empty()) {
      if constexpr (!is_storage_only_v<T>) {
        grid.comm(c.plan.result.partial).template all_reduce<T>(result.view, result.view, ReduceOp::sum).wait();
        result.mirror.store();
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
