// SPDX-License-Identifier: Apache-2.0
// NcclComm on the stand-ins: the laws, and users' cases of collectives that went wrong elsewhere.
#include "partita/comm/nccl.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/backend/cuda.hpp"
#include "partita/comm/checked.hpp"
#include "partita/comm/counting.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "partita/context.hpp"
#include "support/mirrored_comm.hpp"
#include "support/sweep_share.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;
using test::MirroredComm;

TEST_CASE("NcclComm obeys the communicator laws, without a race") {
  for (const Progress progress : cuda_emulation::all_progress) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      if (ranks > 4 && test::sweep_share() < 1) continue;  // eight are in unit/cuda/nccl_test.cpp too
      CAPTURE(ranks);
      const Fresh fresh(cuda_emulation::with(progress));
      launch_devices(ranks, [](NcclComm& comm) {
        MirroredComm mirrored(comm);
        laws::check_communicator(mirrored);
      });
    }
  }
}

TEST_CASE("Decorators obey the laws over NcclComm, and hand on its timeline") {
  const Fresh fresh;
  launch_devices(3, [](NcclComm base) {
    const CudaTimeline* const timeline = base.timeline().get();
    CheckedComm comm{CountingComm(std::move(base))};
    CHECK(comm.timeline().get() == timeline);
    MirroredComm mirrored(comm);
    laws::check_communicator(mirrored);
    CHECK(comm.traffic() == comm.base().base().traffic());
    comm.close();
  });
}

/// Every operation once or more, with gaps, empty blocks and in place.
template <class C>
void use_all(C& comm) {
  laws::check_type<float>(comm);
  laws::check_type<std::int64_t>(comm);
}

TEST_CASE("Traffic is that of threads, operation by operation") {
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<Traffic> threads(static_cast<std::size_t>(ranks));
    std::vector<Traffic> devices(threads);
    launch_threads(ranks, [&](ThreadComm& comm) {
      use_all(comm);
      threads[static_cast<std::size_t>(comm.rank())] = comm.traffic();
    });
    const Fresh fresh;
    launch_devices(ranks, [&](NcclComm& comm) {
      MirroredComm mirrored(comm);
      use_all(mirrored);
      devices[static_cast<std::size_t>(comm.rank())] = comm.traffic();
    });
    CHECK(threads == devices);
  }
}

TEST_CASE("Any trivially copyable element moves; NCCL's own types are summed, others refused") {
  const Fresh fresh;
  launch_devices(2, [](NcclComm& comm) {
    struct Pair {
      std::int32_t a;
      char b;
      bool operator==(const Pair&) const = default;
    };
    MirroredComm mirrored(comm);
    std::array<Pair, 2> x{Pair{comm.rank(), 'x'}, Pair{7, 'y'}};
    mirrored.broadcast(row_view(x.data(), 2), 1).wait();
    CHECK(x[0] == Pair{1, 'x'});
    std::array<half, 3> h{half(1.0F), half(2.0F), half(static_cast<float>(comm.rank()))};
    mirrored.broadcast(row_view(h.data(), 3), 1).wait();
    CHECK(static_cast<float>(h[2]) == 1.0F);
    laws::check_sums<std::uint8_t>(mirrored, 3, 2);
    laws::check_sums<std::uint64_t>(mirrored, 3, 2);
    std::int16_t small = 1;
    CHECK_THROWS_AS(static_cast<void>(comm.all_reduce(row_view(&small, 1), row_view(&small, 1))), ArgumentError);
  });
}

TEST_CASE("C08: one buffer for both sides is summed in place, overlapping buffers are refused on all ranks") {
  for (const Progress progress : cuda_emulation::all_progress) {
    const Fresh fresh(cuda_emulation::with(progress));
    launch_devices(4, [](NcclComm& comm) {
      MirroredComm mirrored(comm);
      const int rank = comm.rank();
      std::array<double, 5> x{};
      x.fill(rank + 1);
      mirrored.all_reduce(row_view(x.data(), 4), row_view(x.data(), 4)).wait();
      REQUIRE(x == std::array<double, 5>{10, 10, 10, 10, rank + 1.0});

      std::array<double, 8> all{};
      std::vector<Block> blocks;
      for (int r = 0; r < 4; ++r) blocks.push_back({{0, 1}, {2 * r, 2 * r + 2}});
      const View<double> whole = row_view(all.data(), 8);
      const View<double> own = whole.sub(blocks[static_cast<std::size_t>(rank)]);
      own(0, 0) = 2 * rank;
      own(0, 1) = 2 * rank + 1;
      mirrored.all_gather(own, whole, blocks).wait();
      REQUIRE(all == std::array<double, 8>{0, 1, 2, 3, 4, 5, 6, 7});

      const Memory memory = comm.allocate(64);
      auto* const on_device = reinterpret_cast<double*>(memory.get());
      const View<double> a = row_view(on_device, 4);
      CHECK_THROWS_AS(static_cast<void>(comm.all_reduce(a, row_view(on_device + 3, 4))), AliasError);
      const std::vector<View<const double>> sends(4, row_view(on_device, 2));
      std::vector<View<double>> receives;
      for (int r = 0; r < 4; ++r) receives.push_back(row_view(on_device + 2 * r, 2));
      CHECK_THROWS_AS(static_cast<void>(comm.all_to_all_v(std::span(sends), std::span<const View<double>>(receives))),
                      AliasError);
      // One buffer for a message there and one back. What was refused moves nothing, and the rest goes on.
      double there = rank;
      double back = -1;
      auto sent = mirrored.send(row_view(&there, 1), (rank + 1) % 4, 0);
      auto received = mirrored.recv(row_view(&back, 1), (rank + 3) % 4, 0);
      received.wait();
      sent.wait();
      CHECK(back == (rank + 3) % 4);
      comm.barrier();
    });
  }
}

TEST_CASE("C08: a send and a receive in one buffer are refused before anything moves") {
  const Fresh fresh;
  launch_devices(2, [](NcclComm& comm) {
    const Memory memory = comm.allocate(64);
    auto* const data = reinterpret_cast<double*>(memory.get());
    comm.timeline()->before_compute({cuda_write(data, 64)});
    cuda_emulation::ok(cudaMemsetAsync(data, 0, 64, comm.timeline()->compute()));
    auto sent = comm.send(row_view(data, 4), 1 - comm.rank(), 0);
    CHECK_THROWS_AS(static_cast<void>(comm.recv(row_view(data + 3, 4), 1 - comm.rank(), 0)), AliasError);
    auto received = comm.recv(row_view(data + 4, 4), 1 - comm.rank(), 0);
    sent.wait();
    received.wait();
    comm.timeline()->sync();
  });
}

TEST_CASE("D01: a sum has the same bits on every rank and in every run") {
  const Fresh fresh;
  std::array<std::array<std::uint32_t, 100>, 4> bits{};
  launch_devices(4, [&](NcclComm& comm) {
    MirroredComm mirrored(comm);
    const std::array<float, 4> values{1e8F, 1.0F, -1e8F, 1.0F};
    for (std::uint32_t& found : bits[static_cast<std::size_t>(comm.rank())]) {
      float x = values[static_cast<std::size_t>(comm.rank())];
      mirrored.all_reduce(row_view(&x, 1), row_view(&x, 1)).wait();
      CHECK((x == 0.0F || x == 1.0F || x == 2.0F));
      found = std::bit_cast<std::uint32_t>(x);
    }
  });
  for (const auto& of_rank : bits) {
    CHECK(std::all_of(of_rank.begin(), of_rank.end(), [&](std::uint32_t b) { return b == bits[0][0]; }));
  }
}

/// A device block of a rank, and the arithmetic of a product on it.
struct Blocks {
  explicit Blocks(Context<CudaBackend, NcclComm>& context) {
    for (Memory& memory : memories) memory = context.allocate<float>(64);
    for (std::size_t i = 0; i < 4; ++i) views[i] = {reinterpret_cast<float*>(memories[i].get()), 4, 4, 8};
    for (const View<float>& v : views) context.backend().clear(v);
  }
  std::array<Memory, 4> memories;
  std::array<View<float>, 4> views;
};

CudaOptions small_workspace() {
  CudaOptions options;
  options.workspace_bytes = 4096;
  return options;
}

/// Arithmetic and communication that touch each other's memory, and wait for each other nowhere else.
void alternate(NcclComm base) {
  CudaBackend backend(base.timeline(), small_workspace());
  Context<CudaBackend, NcclComm> context(std::move(base), std::move(backend));
  NcclComm& comm = context.comm();
  {
    Blocks b(context);
    const auto& [x, y, z, w] = b.views;
    const int size = comm.size();
    const index_t width = 4 / size;
    std::vector<Block> columns;
    for (int r = 0; r < size; ++r) columns.push_back({{0, 4}, {r * width, (r + 1) * width}});
    const Block own = columns[static_cast<std::size_t>(comm.rank())];
    const auto multiply = [&](View<float> from, View<float> into) {
      context.backend().gemm<float>(1.0F, {from}, {from}, into);
    };
    multiply(x, y);
    comm.all_reduce(y, y).wait();  // reads what the product wrote
    multiply(y, z);                // reads the sum
    comm.broadcast(y, 0).wait();   // the root only reads: no wait there, but that of its peers
    multiply(y, z);
    comm.all_gather(z.sub(own), z, columns).wait();
    context.backend().clear(z.sub(own));  // the own part was only read
    multiply(z, w);
    comm.reduce_scatter(w, x.sub(own), columns).wait();
    multiply(x, y);
    comm.reduce(y, z, size - 1, Into::accumulate).wait();
    context.backend().scale<float>(0.0F, y);
    multiply(z, w);
    auto panel = comm.broadcast_panel(w, x, size - 1);
    panel.wait();
    context.backend().copy<float>(panel.view(), y);
    panel.release();
    auto sent = comm.send(y, (comm.rank() + 1) % size, 0);
    auto received = comm.recv(z, (comm.rank() + size - 1) % size, 0);
    received.wait();
    sent.wait();
    multiply(z, w);
    context.backend().clear(y);
  }
  context.sync();
}

TEST_CASE("Arithmetic and communication are ordered where they meet") {
  for (const Progress progress : cuda_emulation::all_progress) {
    for (const int ranks : {1, 2, 4}) {
      const Fresh fresh(cuda_emulation::with(progress));
      launch_devices(ranks, [](NcclComm comm) { alternate(std::move(comm)); });
    }
  }
}

TEST_CASE("Every wait between the two streams is needed: without it there is a race") {
  for (const int device : {0, 1}) {
    std::int64_t waits = 1;
    for (std::int64_t n = 1; n <= waits; ++n) {
      if (!test::in_share(n - 1)) continue;
      cuda_emulation::reset();
      cuda_emulation::drop_wait(n, device);
      launch_devices(2, [](NcclComm comm) { alternate(std::move(comm)); });
      waits = cuda_emulation::counters().waits;
      if (cuda_emulation::counters().dropped_waits == 0) break;
      CAPTURE(device);
      CAPTURE(n);
      bool raced = false;
      for (const cuda_emulation::Report& r : cuda_emulation::take_reports()) {
        raced = raced || r.kind == cuda_emulation::Finding::race;
      }
      CHECK(raced);
    }
    CHECK(waits > 10);
  }
  (void)cuda_emulation::take_reports();
}

TEST_CASE("A context's backend shares the communicator's timeline, and one of its own is refused") {
  const Fresh fresh;
  launch_devices(1, [](NcclComm comm) {
    auto part = comm.split(0, 0);
    CHECK(part->timeline() == comm.timeline());
    CudaBackend own(small_workspace());
    using DeviceContext = Context<CudaBackend, NcclComm>;
    CHECK_THROWS_AS(DeviceContext(std::move(*part), std::move(own)), ArgumentError);
    DeviceContext context(std::move(comm));
    CHECK(context.backend().timeline() == context.comm().timeline());
  });
}

TEST_CASE("More ranks than devices, and no device, are told before anything begins") {
  {
    const Fresh fresh(cuda_emulation::with(Progress::normal, 2));
    CHECK_THROWS_WITH_AS(launch_devices(3, [](NcclComm&) {}),
                         "ArgumentError: launch_devices with 3 ranks, NCCL needs a device for each and there are 2; "
                         "CudaThreadComm (comm/cuda_thread.hpp, launch_on_device) runs several ranks on one device",
                         ArgumentError);
    CHECK_THROWS_AS(NcclComm(nccl_unique_id(), 2, 2), ArgumentError);
  }
  const Fresh fresh(cuda_emulation::with(Progress::normal, 0));
  CHECK_THROWS_AS(launch_devices(1, [](NcclComm&) {}), NoDeviceError);
  CHECK_THROWS_AS(NcclComm(ncclUniqueId{}, 1, 0), NoDeviceError);
}

}  // namespace
}  // namespace partita
