// SPDX-License-Identifier: Apache-2.0
// The ranks of the tests of layers: threads, or the kind of ranks on devices that PARTITA_TEST_RANKS names, for which
// the same tests are compiled once more. And what stands in their memory, as the host sees it.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "partita/tensor/to.hpp"
#include "support/threads.hpp"

#ifdef PARTITA_TEST_RANKS
#include "partita/backend/cuda.hpp"
#include "partita/comm/cuda_thread/launch.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "support/host_order.hpp"
#include "unit/cuda/support.hpp"
#endif

namespace partita::test {

#ifdef PARTITA_TEST_RANKS

/// Ranks that are threads with a device each. A kind of ranks has a communicator on devices, and launch() that calls
/// body(Comm, ThreadComm&).
struct NcclRanks {
  using Comm = NcclComm;
  template <class Body>
  static void launch(int ranks, const Body& body) {
    launch_devices(ranks, body);
  }
};
/// Ranks that are threads and share a device.
struct CudaThreadRanks {
  using Comm = CudaThreadComm;
  template <class Body>
  static void launch(int ranks, const Body& body) {
    launch_on_device(ranks, body);
  }
};

using TestContext = Context<CudaBackend, PARTITA_TEST_RANKS::Comm>;
inline constexpr bool ranks_on_devices = true;

/// What a rank has on its thread, beside its device: the context, and the grids that were made there.
struct HostSide {
  explicit HostSide(ThreadComm comm) : context(std::move(comm)) {}
  ThreadContext context;
  std::vector<std::shared_ptr<ProcessGrid<ThreadContext>>> grids;
};
inline thread_local HostSide* host_side = nullptr;

/// The machines of one test program run their work early and late in turn.
inline cuda_emulation::Options next_machine() {
  static std::size_t turn = 0;
  return cuda_emulation::with(cuda_emulation::all_progress[turn++ % std::size(cuda_emulation::all_progress)]);
}

/// Calls body(TestContext&) on so many ranks of a fresh machine, in which nothing is found and of which nothing is
/// left.
template <class Body>
void on_test_ranks(int ranks, Body body) {
  const cuda_emulation::Fresh fresh(next_machine());
  PARTITA_TEST_RANKS::launch(ranks, [&](PARTITA_TEST_RANKS::Comm comm, ThreadComm& threads) {
    HostSide host(std::move(*threads.subset(threads.size())));
    CudaBackend backend(comm.timeline(), small_backend());
    TestContext context(std::move(comm), std::move(backend));
    host_side = &host;
    body(context);
  });
}

inline ThreadContext& host_of(TestContext&) { return host_side->context; }

/// The grid of the same extents on the ranks' threads. Collective.
template <class G>
GridHandle<G, ThreadContext> host_grid(const GridHandle<G, TestContext>& grid) {
  const ProcessGrid<TestContext>& ranks = grid.ranks();
  for (const auto& made : host_side->grids) {
    if (made->axes() == ranks.axes() && made->extents() == ranks.extents()) return GridHandle<G, ThreadContext>(made);
  }
  std::vector<int> extents;
  for (int axis = 0; axis < G::axis_count; ++axis) {
    if (G::extents[axis] == dynamic) extents.push_back(ranks.extents()[static_cast<unsigned>(axis)]);
  }
  const auto made = make_grid_of<G>(host_side->context, std::span<const int>(extents));
  host_side->grids.push_back(made.shared());
  return made;
}

/// A copy of the tensor in the memory of the host. Collective.
template <class T, class P>
auto to_host(const DistTensor<T, P, TestContext>& tensor) {
  return to(host_grid(tensor.grid()), tensor);
}

#else

using TestContext = ThreadContext;
inline constexpr bool ranks_on_devices = false;

template <class Body>
void on_test_ranks(int ranks, Body body) {
  on_ranks(ranks, std::move(body));
}
inline ThreadContext& host_of(TestContext& context) { return context; }

#endif

template <class T, class P>
const DistTensor<T, P, ThreadContext>& to_host(const DistTensor<T, P, ThreadContext>& tensor) {
  return tensor;
}

/// The elements of a block in the context's memory.
template <class Ctx, class T>
Matrix<T> elements_of(Ctx& context, View<const T> block) {
  Matrix<T> elements(block.shape());
  context.sync();
  context.backend().template copy<T>(block, elements.view());
  context.sync();
  return elements;
}
template <class Ctx, class T>
Matrix<T> elements_of(Ctx& context, View<T> block) {
  return elements_of(context, View<const T>(block));
}
template <class T, class P, class Ctx>
Matrix<T> elements_of(const DistTensor<T, P, Ctx>& tensor) {
  return elements_of(tensor.context(), tensor.local());
}

/// Element (i, j) of a block in the context's memory = f(i, j), i and j local.
template <class Ctx, class T, class F>
void set_elements(Ctx& context, View<T> block, const F& f) {
  detail::fill(context.backend(), block, [&](View<T> out) {
    for (index_t i = 0; i < out.rows; ++i) {
      for (index_t j = 0; j < out.cols; ++j) out(i, j) = static_cast<T>(f(i, j));
    }
  });
}
template <class T, class P, class Ctx, class F>
void set_elements(DistTensor<T, P, Ctx>& tensor, const F& f) {
  set_elements(tensor.context(), tensor.local(), f);
}

}  // namespace partita::test
