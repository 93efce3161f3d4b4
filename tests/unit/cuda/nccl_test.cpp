// SPDX-License-Identifier: Apache-2.0
// NcclComm on as many devices as there are: the laws, and products between its operations.
#include "partita/comm/nccl.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "laws/communicator_laws.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "partita/context.hpp"
#include "support/mirrored_comm.hpp"
#include "unit/cuda/support.hpp"

namespace partita {
namespace {

using test::MirroredComm;

/// f on 1, 2, 4, ... ranks.
template <class F>
void on_devices(F f) {
  const int devices = cuda_device_count();
  for (int ranks = 1; ranks <= devices && ranks <= 8; ranks *= 2) {
    CAPTURE(ranks);
    launch_devices(ranks, f);
  }
}

TEST_CASE("NcclComm obeys the communicator laws on the devices that there are") {
  const test::CudaMachine machine;
  on_devices([](NcclComm& comm) {
    MirroredComm mirrored(comm);
    laws::check_communicator(mirrored);
  });
}

TEST_CASE("Products and sums follow each other without the host, and a sum has the same bits in every run") {
  const test::CudaMachine machine;
  on_devices([](NcclComm base) {
    CudaBackend backend(base.timeline(), test::small_backend());
    Context<CudaBackend, NcclComm> context(std::move(base), std::move(backend));
    constexpr index_t n = 32;
    std::vector<float> host(static_cast<std::size_t>(n * n));  // of any values: only that runs agree is asked
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 97) / 31.0F - 1.0F;
    const Memory a_memory = context.allocate<float>(n * n);
    const Memory c_memory = context.allocate<float>(n * n);
    const View<float> a(reinterpret_cast<float*>(a_memory.get()), n, n, n);
    const View<float> c(reinterpret_cast<float*>(c_memory.get()), n, n, n);
    std::vector<float> first;
    for (int round = 0; round < 5; ++round) {
      context.backend().copy<float>(View<const float>(host.data(), n, n, n), a);
      context.backend().clear(c);
      for (int step = 0; step < 4; ++step) {
        context.backend().gemm<float>(0x1p-12F, {a}, {a}, c);
        context.comm().all_reduce(c, c).wait();
        context.backend().gemm<float>(0x1p-12F, {c}, {c}, a);
        context.comm().broadcast(a, context.size() - 1).wait();
      }
      std::vector<float> result(host.size());
      context.sync();
      context.backend().copy<float>(c, View<float>(result.data(), n, n, n));
      context.sync();
      if (round == 0) first = result;
      CHECK(result == first);
    }
  });
}

}  // namespace
}  // namespace partita
