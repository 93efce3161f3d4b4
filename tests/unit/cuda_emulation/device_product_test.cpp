// SPDX-License-Identifier: Apache-2.0
// Products on devices: no wait of the host, no memory after the first, and failures.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "partita/matmul/matmul.hpp"
#include "partita/redistribute/redistribute.hpp"
#include "support/device_case.hpp"
#include "support/fills.hpp"

namespace partita::test {
namespace {

using cuda_emulation::Fresh;
using cuda_emulation::Progress;
using PlainContext = Context<CudaBackend, CudaThreadComm>;

void same_on(int rank, bool same, const char* what) {
  if (!same) FAIL(std::string(what), " is wrong on rank ", rank);
}

TEST_CASE("A product waits for no stream, and allocates no device memory after the first") {
  const Fresh fresh(cuda_emulation::with(Progress::latest, 1));
  launch_on_device(4, [](CudaThreadComm& comm) {
    const auto timeline = comm.timeline();
    PlainContext context(std::move(comm), CudaBackend(timeline, small_backend()));
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

using cuda_emulation::Library;

/// Products that come in, go out, and end in a sum.
template <class Comm>
void some_products(Comm& comm) {
  const auto timeline = comm.timeline();
  Context<CudaBackend, Comm> context(std::move(comm), CudaBackend(timeline, small_backend()));
  const auto grid = make_grid<Summa2D<2, 1>>(context);
  const auto a = from_function<float, Summa2D<2, 1>>(grid, {4, 4}, fill_a);
  const auto uneven = from_function<float, Summa2D<2, 1>>(grid, {3, 4}, fill_b);
  const auto line = make_grid<RowShard<2>>(context);
  const auto x = redistribute<ColumnShard<2>>(a, line);
  const auto y = redistribute<RowShard<2>>(a, line);
  const auto c = matmul(a, a);
  const auto d = matmul(transposed(a), a);
  const auto e = matmul(x, y);
  const auto f = matmul<RowShard<2>>(x, y);
  const auto g = matmul(y, x);
  const auto h = matmul(transposed(uneven), uneven);
  context.sync();
  context.comm().barrier();
}

/// Makes the first, second … call of `function` fail, until there are no more; every failure is told on all ranks,
/// unless it may happen in a destructor.
template <class Comm>
void check_failures(const Library library, const char* function, int code, bool in_destructors) {
  const std::string called = function;
  CAPTURE(called);
  LaunchOptions options;
  options.deadline = std::chrono::seconds(5);
  for (std::int64_t n = 1;; ++n) {
    CAPTURE(n);
    const Fresh fresh;
    cuda_emulation::fail_call({library, n, code, function, cuda_emulation::any_device, false});
    std::atomic<int> began = 0;
    std::atomic<int> left = 0;
    bool thrown = false;
    const auto body = [&](Comm& comm) {
      ++began;
      try {
        some_products(comm);
      } catch (const Error&) {
        ++left;
        throw;
      }
    };
    try {
      if constexpr (std::is_same_v<Comm, CudaThreadComm>) {
        launch_on_device(2, options, body);
      } else {
        launch_devices(2, options, body);
      }
    } catch (const Error&) {
      thrown = true;
    }
    const bool failed = cuda_emulation::counters().faults == 1;
    CHECK((failed || !thrown));
    CHECK((thrown || !failed || in_destructors));
    if (!in_destructors) CHECK(left == (thrown ? began.load() : 0));
    if (failed) continue;
    CHECK(n > 1);
    return;
  }
}

template <class Comm>
void check_all_failures() {
  for (const char* function : {"cudaGetDeviceCount", "cudaStreamCreateWithPriority", "cudaEventCreateWithFlags",
                               "cudaMallocAsync", "cudaMemcpy2DAsync", "cudaMemset2DAsync"}) {
    check_failures<Comm>(Library::cuda, function, cudaErrorLaunchFailure, false);
  }
  for (const char* function :
       {"cudaSetDevice", "cudaEventRecord", "cudaStreamWaitEvent", "cudaFreeAsync", "cudaStreamDestroy"}) {
    check_failures<Comm>(Library::cuda, function, cudaErrorLaunchFailure, true);
  }
  for (const char* function : {"cublasCreate", "cublasSetStream", "cublasSetWorkspace", "cublasGemmEx_64"}) {
    check_failures<Comm>(Library::cublas, function, CUBLAS_STATUS_EXECUTION_FAILED, false);
  }
}

TEST_CASE("Ranks that share a device: every call in a product, made to fail, is a typed error on all ranks") {
  check_all_failures<CudaThreadComm>();
  check_failures<CudaThreadComm>(Library::cuda, "cudaGetDevice", cudaErrorLaunchFailure, false);
  check_failures<CudaThreadComm>(Library::cuda, "launch_sum", cudaErrorLaunchFailure, false);
}

TEST_CASE("Ranks with a device each: every call in a product, made to fail, is a typed error on all ranks") {
  check_all_failures<NcclComm>();
  for (const char* function :
       {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclCommSplit", "ncclGroupStart", "ncclGroupEnd", "ncclBroadcast",
        "ncclReduce", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv"}) {
    check_failures<NcclComm>(Library::nccl, function, ncclSystemError, false);
  }
}

TEST_CASE("A rank that throws between products frees its peers") {
  for (int when = 0; when < 4; ++when) {
    const Fresh fresh;
    CHECK_THROWS_WITH(launch_on_device(3,
                                       [when](CudaThreadComm& comm) {
                                         const auto timeline = comm.timeline();
                                         PlainContext context(std::move(comm), CudaBackend(timeline, small_backend()));
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
