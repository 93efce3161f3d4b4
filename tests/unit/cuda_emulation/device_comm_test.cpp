// SPDX-License-Identifier: Apache-2.0
// CudaThreadComm on the stand-ins: the laws of a communicator, ranks that fail, calls that fail.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/backend/cuda.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/cuda_thread/launch.hpp"
#include "support/host_order.hpp"
#include "support/mirrored_comm.hpp"
#include "support/sweep_share.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;
using test::MirroredComm;

static_assert(Communicator<MirroredComm<CudaThreadComm>>);

LaunchOptions quick() {
  LaunchOptions options;
  options.deadline = std::chrono::seconds(20);
  return options;
}

TEST_CASE("CudaThreadComm obeys the laws of a communicator") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    if (ranks > 4 && test::sweep_share() < 1) continue;  // there are five below
    CAPTURE(ranks);
    const Fresh fresh(cuda_emulation::with(Progress::normal, 1));
    launch_on_device(ranks, quick(), [](CudaThreadComm& comm) {
      MirroredComm<CudaThreadComm> mirrored(std::move(comm));
      laws::check_communicator(mirrored);
    });
  }
}

TEST_CASE("The laws hold as early and as late as streams may run") {
  for (const Progress progress : {Progress::earliest, Progress::latest}) {
    for (const int ranks : {2, 5}) {
      const Fresh fresh(cuda_emulation::with(progress, 1));
      launch_on_device(ranks, quick(), [](CudaThreadComm& comm) {
        MirroredComm<CudaThreadComm> mirrored(std::move(comm));
        laws::check_type<float>(mirrored);
        laws::check_type<std::int64_t>(mirrored);
        laws::check_control(mirrored);
      });
    }
  }
}

TEST_CASE("Decorators obey the laws over CudaThreadComm, and hand on its timeline") {
  const Fresh fresh(cuda_emulation::with(Progress::normal, 1));
  launch_on_device(3, quick(), [](CudaThreadComm& base) {
    const CudaTimeline* const timeline = base.timeline().get();
    CountingComm comm(std::move(base));
    laws::expect(comm.timeline().get() == timeline, "the timeline", comm.rank());
    MirroredComm<CountingComm<CudaThreadComm>> mirrored(std::move(comm));
    laws::check_communicator(mirrored);
  });
}

template <class T>
void check_small_integers(MirroredComm<CudaThreadComm>& comm) {
  std::array<T, 3> x{static_cast<T>(comm.rank()), T(1), static_cast<T>(100 - comm.rank())};
  std::array<T, 3> sum{};
  std::array<T, 3> most{};
  comm.template all_reduce<T>(row_view<const T>(x.data(), 3), row_view(sum.data(), 3), ReduceOp::sum).wait();
  comm.template all_reduce<T>(row_view<const T>(x.data(), 3), row_view(most.data(), 3), ReduceOp::max).wait();
  laws::expect(sum[0] == T(1) && sum[1] == T(2) && sum[2] == static_cast<T>(199), "sum", comm.rank());
  laws::expect(most[0] == T(1) && most[1] == T(1) && most[2] == T(100), "maximum", comm.rank());
}

TEST_CASE("Integers of every width are summed, and a maximum that is NaN stays") {
  const Fresh fresh;
  launch_on_device(2, quick(), [](CudaThreadComm& comm) {
    MirroredComm<CudaThreadComm> mirrored(std::move(comm));
    check_small_integers<std::uint8_t>(mirrored);
    check_small_integers<std::int16_t>(mirrored);
    check_small_integers<std::uint16_t>(mirrored);
    check_small_integers<unsigned>(mirrored);
    check_small_integers<long>(mirrored);
    check_small_integers<long long>(mirrored);
    check_small_integers<unsigned long long>(mirrored);
    float x = mirrored.rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
    mirrored.all_reduce(row_view(&x, 1), row_view(&x, 1), ReduceOp::max).wait();
    laws::expect(x != x, "NaN", mirrored.rank());
  });
}

TEST_CASE("An operation returns before the device has run it") {
  const Fresh fresh(cuda_emulation::with(Progress::latest, 1));
  launch_on_device(2, quick(), [](CudaThreadComm& comm) {
    const Memory memory = comm.allocate(64);
    const View<float> x = row_view(reinterpret_cast<float*>(memory.get()), 16);
    CudaBackend backend(comm.timeline(), {});
    backend.clear(x);
    comm.all_reduce(x, x, ReduceOp::sum).wait();
    laws::expect(cudaStreamQuery(comm.timeline()->communication()) == cudaErrorNotReady, "a stream", comm.rank());
    comm.barrier();  // a rank that ends waits for the streams
  });
}

TEST_CASE("A rank that throws frees its peers wherever they are, and nothing is left") {
  for (int when = 0; when < 8; ++when) {
    CAPTURE(when);
    const Fresh fresh;
    const auto program = [when](CudaThreadComm& comm) {
      CudaBackend backend(comm.timeline(), {});
      const Memory memory = comm.allocate(256);
      auto* const data = reinterpret_cast<float*>(memory.get());
      const View<float> x = row_view(data, 16);
      const View<float> y = row_view(data + 16, 16);
      backend.clear(x);
      backend.clear(y);
      auto step = [&, at = 0]() mutable {
        if (at++ == when && comm.rank() == 1) throw std::runtime_error("boom");
      };
      step();
      comm.all_reduce(x, x, ReduceOp::sum).wait();
      step();
      auto panel = comm.broadcast_panel<float>(x, y, 1);
      step();
      panel.wait();
      step();
      if (comm.rank() != 1) backend.copy<float>(panel.view(), y);
      panel.release();
      step();
      comm.drain();
      step();
      comm.reduce<float>(x, y, 0, Into::accumulate).wait();
      step();
      auto sent = comm.send(x, (comm.rank() + 1) % 3, 0);
      comm.recv(y, (comm.rank() + 2) % 3, 0).wait();
      sent.wait();
      step();
    };
    CHECK_THROWS_WITH(launch_on_device(3, quick(), program), "boom");
    CHECK(cuda_emulation::live().total() == 0);
  }
}

TEST_CASE("Ranks that call different operations are told so") {
  const auto refused = [](auto program) {
    const Fresh fresh;
    CHECK_THROWS_AS(launch_on_device(2, quick(), program), Error);
  };
  const auto with_memory = [](CudaThreadComm& comm, auto f) {
    CudaBackend backend(comm.timeline(), {});
    const Memory memory = comm.allocate(256);
    const View<float> x = row_view(reinterpret_cast<float*>(memory.get()), 16);
    backend.clear(x);
    f(x);
  };
  refused([&](CudaThreadComm& comm) {
    with_memory(comm, [&](View<float> x) {
      comm.rank() == 0 ? comm.all_reduce(x, x, ReduceOp::sum).wait() : comm.broadcast(x, 0).wait();
    });
  });
  refused(
      [&](CudaThreadComm& comm) { with_memory(comm, [&](View<float> x) { comm.broadcast(x, comm.rank()).wait(); }); });
  refused([&](CudaThreadComm& comm) {
    with_memory(comm, [&](View<float> x) {
      comm.all_reduce(x.sub({{0, 1}, {0, 4 + comm.rank()}}), x.sub({{0, 1}, {0, 4 + comm.rank()}}), ReduceOp::sum)
          .wait();
    });
  });
  refused([&](CudaThreadComm& comm) {
    with_memory(comm, [&](View<float> x) {
      auto panel = comm.broadcast_panel<float>(x, x.sub({{0, 1}, {0, 3}}), 0);
      panel.wait();
      comm.drain();
    });
  });
}

TEST_CASE("Ranks with different devices current are refused on all of them") {
  const Fresh fresh(cuda_emulation::with(Progress::normal, 2));
  CHECK_THROWS_AS(launch_threads(2, quick(),
                                 [](ThreadComm host) {
                                   cuda_emulation::ok(cudaSetDevice(host.rank()));
                                   CudaThreadComm comm(std::move(host));
                                 }),
                  ArgumentError);
  CHECK_THROWS_AS(launch_on_device(1, [](CudaThreadComm&) {}, 7), ArgumentError);
}

TEST_CASE("launch_on_device: each way of taking the communicator, with that of the threads too") {
  const Fresh fresh(cuda_emulation::with(Progress::normal, 1));
  std::atomic<int> called{0};
  launch_on_device(3, quick(), [&](CudaThreadComm& comm) { called += comm.size(); });
  launch_on_device(3, quick(), [&](CudaThreadComm comm) { called += comm.size(); });
  launch_on_device(3, quick(), [&](CudaThreadComm comm, ThreadComm& threads) {
    std::vector<int> x(1, comm.rank());  // of the host, where the other communicator has the device's
    threads.all_reduce(row_view(x.data(), 1), row_view(x.data(), 1)).wait();
    laws::expect(x[0] == 3 && threads.rank() == comm.rank(), "a sum of threads", comm.rank());
    laws::expect(comm.agree(comm.rank()) == 2, "agreement", comm.rank());
    called += comm.size();
  });
  CHECK(called == 27);
  CHECK_THROWS_AS(launch_on_device(2, quick(),
                                   [](CudaThreadComm comm, ThreadComm& threads) {
                                     if (comm.rank() == 1) throw std::runtime_error("boom");
                                     threads.barrier();
                                   }),
                  std::runtime_error);
}

TEST_CASE("Every call of CUDA, made to fail, is a typed error of all ranks and leaves nothing behind") {
  const auto program = [](CudaThreadComm& comm) {
    CudaBackend backend(comm.timeline(), {});
    const Memory memory = comm.allocate(512);
    auto* const data = reinterpret_cast<double*>(memory.get());
    const View<double> x = row_view(data, 16);
    const View<double> y = row_view(data + 16, 16);
    backend.clear(x);
    backend.clear(y);
    comm.all_reduce(x, y, ReduceOp::sum).wait();
    {
      auto panel = comm.broadcast_panel<double>(x, {nullptr, x.shape()}, 0);
      panel.wait();
      if (comm.rank() == 1) backend.combine<double>(1.0, panel.view(), y);
      panel.release();
      comm.drain();
    }
    comm.reduce<double>(x, y, 1, Into::accumulate).wait();
    auto sent = comm.send(x, 1 - comm.rank(), 0);
    comm.recv(y, 1 - comm.rank(), 0).wait();
    sent.wait();
    backend.sync();
  };
  std::int64_t calls = 0;
  {
    const Fresh fresh;
    launch_on_device(2, quick(), program);
    calls = cuda_emulation::counters().cuda;
  }
  for (std::int64_t n = 1; n <= calls; ++n) {
    if (!test::in_share(n - 1)) continue;
    CAPTURE(n);
    const Fresh fresh;
    cuda_emulation::fail_call({cuda_emulation::Library::cuda, n, cudaErrorLaunchFailure, "", -1, false});
    bool thrown = false;
    try {
      launch_on_device(2, quick(), program);
    } catch (const Error&) {
      thrown = true;
    }
    CHECK((thrown || cuda_emulation::counters().faults <= 1));  // one in a destructor is told to nobody
  }
}

}  // namespace
}  // namespace partita
