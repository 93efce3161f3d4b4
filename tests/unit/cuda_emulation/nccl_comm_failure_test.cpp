// SPDX-License-Identifier: Apache-2.0
// NcclComm when something goes wrong: every call that fails, ranks that throw, stay away, disagree or give up. Whatever
// it is, every rank leaves with a typed error, nothing hangs and nothing is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/comm/checked.hpp"
#include "partita/comm/nccl_launch.hpp"
#include "partita/tensor/create.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita {
namespace {

using cuda_emulation::fail_call;
using cuda_emulation::Finding;
using cuda_emulation::Fresh;
using cuda_emulation::Library;
using cuda_emulation::Progress;

/// A deadline: long where something else is to end the launch, short where nothing does.
LaunchOptions soon(int ms = 10'000) {
  LaunchOptions options;
  options.deadline = std::chrono::milliseconds(ms);
  return options;
}

/// Device memory of a rank, all zeros.
struct Zeros {
  explicit Zeros(NcclComm& comm, std::size_t bytes = 1024) : memory(comm.allocate(bytes)) {
    comm.timeline()->before_compute({cuda_write(memory.get(), bytes)});
    detail::cuda_check(cudaMemsetAsync(memory.get(), 0, bytes, comm.timeline()->compute()), "cudaMemsetAsync");
  }
  template <class T>
  [[nodiscard]] View<T> view(index_t rows, index_t cols, index_t ld) const {
    return {reinterpret_cast<T*>(memory.get()), rows, cols, ld};
  }
  Memory memory;
};

/// A program that makes every kind of call.
void use_everything(NcclComm& comm) {
  const int rank = comm.rank();
  const int size = comm.size();
  const Zeros a(comm);
  const Zeros b(comm);
  const View<float> x = a.view<float>(3, 4, 6);
  const View<float> y = b.view<float>(3, 4, 5);
  comm.broadcast(x, 0).wait();
  auto panel = comm.broadcast_panel(x, y, 1);
  panel.wait();
  panel.release();
  comm.all_reduce(x, y).wait();
  comm.reduce(x, y, 1, Into::accumulate).wait();
  comm.reduce(a.view<std::int64_t>(2, 2, 3), b.view<std::int64_t>(2, 2, 4), 1, Into::accumulate).wait();
  std::vector<Block> even;
  std::vector<Block> uneven;
  for (int r = 0; r < size; ++r) {
    even.push_back({{0, 3}, {r, r + 1}});
    uneven.push_back({{r, r + 1 + r % 2}, {0, 4}});
  }
  const auto own = static_cast<std::size_t>(rank);
  comm.all_gather(x.sub({{0, 3}, {0, 1}}), y, even).wait();
  comm.all_gather(x.sub(uneven[own]), y, uneven).wait();
  comm.reduce_scatter(x, y.sub(even[own]), even).wait();
  comm.reduce_scatter(x, y.sub(uneven[own]), uneven).wait();
  const std::vector<View<const float>> sends(static_cast<std::size_t>(size), x.sub({{0, 2}, {0, 2}}));
  std::vector<View<float>> receives;
  for (int r = 0; r < size; ++r)
    receives.push_back(b.view<float>(4, 2 * size, 2 * size).sub({{0, 2}, {2 * r, 2 * r + 2}}));
  comm.all_to_all_v(std::span(sends), std::span<const View<float>>(receives)).wait();
  {
    auto sent = comm.send(x, (rank + 1) % size, 0);
    auto received = comm.recv(y, (rank + size - 1) % size, 0);
    received.wait();
    sent.wait();
  }
  auto part = comm.split(rank % 2, 0);
  part->all_reduce(x, x).wait();
  const index_t largest = comm.agree(rank);
  CHECK(largest == size - 1);
  std::array<std::int64_t, 8> words{};
  comm.gather_words(std::span(words).first(1), words);
  comm.barrier();
  comm.timeline()->sync();
}

/// Runs `body` on `ranks` ranks, which must leave with typed errors, all of them, and the launch with one that is
/// `fits`; reports are the caller's.
template <class Body, class Fits>
void all_leave(int ranks, LaunchOptions options, Body body, Fits fits) {
  std::atomic<int> left{0};
  const auto start = std::chrono::steady_clock::now();
  try {
    launch_devices(ranks, options, [&](NcclComm& comm) {
      try {
        body(comm);
      } catch (const Error& error) {
        ++left;
        CHECK_THROWS_AS(comm.barrier(), PeerFailed);
        throw;
      }
    });
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(fits(error));
  }
  CHECK(left >= 1);  // one may have heard of it while its communicator was made
  CHECK(left <= ranks);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK(cuda_emulation::live().total() == 0);
}
template <class E>
bool is(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

/// Makes the n-th call of `function` by rank 1 fail, for n = 1, 2, … as long as there is one.
int fail_each(Library library, const std::string& function, int code, bool told, int device = 1) {
  const bool polls = function == "cudaStreamQuery" || function == "ncclCommGetAsyncError";  // destructors do so too
  const int deadline = function == "ncclCommFinalize" ? 2000 : 10'000;                      // which its peers wait out
  for (std::int64_t n = 1;; ++n) {
    cuda_emulation::reset();
    fail_call({library, n, code, function, device, false});
    CAPTURE(function);
    CAPTURE(n);
    std::string thrown;
    try {
      launch_devices(3, soon(deadline), [](NcclComm& comm) { use_everything(comm); });
    } catch (const CudaError& error) {
      thrown = error.what();
      CHECK(error.code == code);
    } catch (const NcclError& error) {
      thrown = error.what();
      CHECK(error.code == code);
    } catch (const CapacityError& error) {
      thrown = error.what();
    } catch (const PeerFailed& error) {  // of a rank whose own call threw nothing: a destructor's
      thrown = error.what();
      CHECK((function == "ncclCommFinalize" || polls));
    }
    const bool hit = cuda_emulation::counters().faults > 0;
    if (told && (!polls || n == 1)) CHECK((!thrown.empty()) == hit);
    const std::string named = function == "cublasSgeam_64" ? "cublasXgeam" : function;
    if (!thrown.empty()) CHECK(thrown.find(named) != std::string::npos);
    for (const cuda_emulation::Report& r : cuda_emulation::take_reports()) FAIL_CHECK(r.text);
    CHECK(cuda_emulation::live().total() == 0);
    if (!hit) return static_cast<int>(n) - 1;
  }
}

TEST_CASE("Every call of CUDA, cuBLAS and NCCL fails once: its error, on all ranks, and nothing is left") {
  for (const std::string function :
       {"cudaStreamCreateWithPriority", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent",
        "cudaStreamQuery", "cudaMallocAsync", "cudaMemsetAsync", "cudaMemcpyAsync", "cudaMemcpy2DAsync",
        "cudaHostAlloc", "cudaLaunchHostFunc", "cudaDeviceGetStreamPriorityRange"}) {
    CHECK(fail_each(Library::cuda, function, cudaErrorLaunchFailure, true) >= 1);
  }
  CHECK(fail_each(Library::cuda, "cudaSetDevice", cudaErrorInvalidDevice, true, 0) >= 3);
  CHECK(fail_each(Library::cuda, "cudaMallocAsync", cudaErrorMemoryAllocation, true) >= 1);
  for (const std::string function : {"cublasCreate", "cublasSetStream", "cublasSgeam_64"}) {
    CHECK(fail_each(Library::cublas, function, CUBLAS_STATUS_EXECUTION_FAILED, true) >= 1);
  }
  for (const std::string function :
       {"ncclCommInitRankConfig", "ncclCommSplit", "ncclCommUserRank", "ncclCommCount", "ncclCommGetAsyncError",
        "ncclGroupStart", "ncclGroupEnd", "ncclBroadcast", "ncclReduce", "ncclAllReduce", "ncclAllGather",
        "ncclReduceScatter", "ncclSend", "ncclRecv"}) {
    CHECK(fail_each(Library::nccl, function, ncclSystemError, true) >= 1);
  }
  // What ends something fails quietly.
  for (const std::string function : {"cudaFreeAsync", "cudaStreamDestroy", "cudaEventDestroy", "cudaFreeHost"}) {
    CHECK(fail_each(Library::cuda, function, cudaErrorLaunchFailure, false) >= 1);
  }
  CHECK(fail_each(Library::cublas, "cublasDestroy", CUBLAS_STATUS_EXECUTION_FAILED, false) >= 1);
  for (const std::string function : {"ncclCommFinalize", "ncclCommDestroy"}) {
    CHECK(fail_each(Library::nccl, function, ncclSystemError, false) >= 1);
  }
}

TEST_CASE("An operation that fails later: its communicator says so to who waits") {
  for (const Progress progress : cuda_emulation::all_progress) {
    for (const std::string function :
         {"ncclBroadcast", "ncclReduce", "ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend"}) {
      for (const ncclResult_t code : {ncclSystemError, ncclRemoteError}) {
        cuda_emulation::reset(cuda_emulation::with(progress));
        fail_call({Library::nccl, 1, code, function, 1, true});
        CAPTURE(function);
        all_leave(2, soon(), use_everything,
                  [&](const Error& e) { return code == ncclRemoteError ? is<PeerFailed>(e) : is<NcclError>(e); });
        for (const cuda_emulation::Report& r : cuda_emulation::take_reports()) FAIL_CHECK(r.text);
      }
    }
  }
}

TEST_CASE("A rank that throws frees its peers, wherever they wait") {
  const std::vector<std::function<void(NcclComm&)>> waits{
      [](NcclComm& comm) { comm.barrier(); },
      [](NcclComm& comm) { (void)comm.split(0, 0); },
      [](NcclComm& comm) {
        const Zeros a(comm);
        comm.all_reduce(a.view<float>(2, 2, 3), a.view<float>(2, 2, 3)).wait();
        comm.timeline()->sync();
      },
      [](NcclComm& comm) {
        const Zeros a(comm);
        comm.recv(a.view<float>(2, 2, 3), 1, 0).wait();
        comm.timeline()->sync();
      },
      [](NcclComm& comm) {
        for (;;) comm.drain();
      },
  };
  for (const Progress progress : cuda_emulation::all_progress) {
    for (const auto& wait : waits) {
      const Fresh fresh(cuda_emulation::with(progress));
      std::atomic<int> freed{0};
      const auto body = [&](NcclComm& comm) {
        try {
          comm.barrier();
          if (comm.rank() == 1) throw ShapeError("ShapeError: of rank 1");
          wait(comm);
        } catch (const PeerFailed& error) {
          CHECK(error.origin == 1);
          ++freed;
          throw;
        }
      };
      CHECK_THROWS_WITH_AS(launch_devices(3, soon(5000), body), "ShapeError: of rank 1", ShapeError);
      CHECK(freed == 2);
    }
  }
}

TEST_CASE("A rank that throws frees peers that are where CUDA waits for a sum it has not entered") {
  const std::vector<std::function<void(NcclComm&, View<float>)>> waits{
      [](NcclComm& comm, View<float>) {  // page-locked memory grows
        std::vector<std::int64_t> words(64 * 3);
        comm.gather_words(std::span(words).first(64), words);
      },
      [](NcclComm& comm, View<float> x) {  // the host writes what is being summed
        CudaBackend backend(comm.timeline());
        detail::fill(backend, x, [](View<float> out) { out(0, 0) = out(0, 1) = out(1, 0) = out(1, 1) = 0; });
      },
  };
  for (const auto& wait : waits) {
    const Fresh fresh;
    std::atomic<int> begun{0};
    std::atomic<int> freed{0};
    const auto body = [&](NcclComm& comm) {
      const Zeros a(comm);
      const View<float> x = a.view<float>(2, 2, 3);
      comm.barrier();
      if (comm.rank() == 1) {
        for (int i = 0; begun < 2 && i < 1000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        throw ShapeError("ShapeError: of rank 1");
      }
      comm.all_reduce(x, x).wait();
      ++begun;
      try {
        wait(comm, x);
      } catch (const PeerFailed& error) {
        CHECK(error.origin == 1);
        ++freed;
        throw;
      }
    };
    CHECK_THROWS_WITH_AS(launch_devices(3, soon(5000), body), "ShapeError: of rank 1", ShapeError);
    CHECK(freed == 2);
  }
}

TEST_CASE("A rank that does not come, or left: the others give up at the deadline") {
  for (const Progress progress : cuda_emulation::all_progress) {
    const Fresh fresh(cuda_emulation::with(progress));
    const auto body = [](NcclComm& comm) {
      const Zeros a(comm);
      if (comm.rank() == 0) return;
      comm.all_reduce(a.view<float>(2, 2, 3), a.view<float>(2, 2, 3)).wait();
      comm.timeline()->sync();
    };
    CHECK_THROWS_AS(launch_devices(3, soon(200), body), TimeoutError);
  }
  const Fresh fresh;  // without a launcher: one of two alone
  cuda_emulation::ok(cudaSetDevice(0));
  NcclOptions options;
  options.deadline = std::chrono::milliseconds(100);
  CHECK_THROWS_AS(NcclComm(nccl_unique_id(), 2, 0, options), TimeoutError);
}

TEST_CASE("Ranks that disagree: NCCL's own verdict, or CheckedComm's") {
  cuda_emulation::reset();
  all_leave(
      2, soon(),
      [](NcclComm& comm) {
        const Zeros a(comm);
        const View<float> x = a.view<float>(2, 2, 2);
        comm.rank() == 0 ? comm.all_reduce(x, x).wait() : comm.broadcast(x, 0).wait();
        comm.timeline()->sync();
      },
      is<NcclError>);
  cuda_emulation::found(Finding::mismatch, {"ncclAllReduce", "ncclBroadcast"});
  (void)cuda_emulation::take_reports();

  const Fresh fresh;
  launch_devices(2, [](NcclComm base) {
    CheckedComm comm(std::move(base));
    const Zeros a(comm.base());
    const View<float> x = a.view<float>(2, 2, 2);
    const auto wrong = [&] { comm.rank() == 0 ? comm.all_reduce(x, x).wait() : comm.broadcast(x, 0).wait(); };
    CHECK_THROWS_AS(wrong(), CollectiveMismatch);
    const std::vector<View<const float>> sends(2, x);
    const Zeros b(comm.base());
    std::vector<View<float>> receives;
    for (int r = 0; r < 2; ++r)
      receives.push_back(b.view<float>(2, 8, 8).sub({{0, 2}, {4 * r, 4 * r + 2 + comm.rank()}}));
    receives[static_cast<std::size_t>(comm.rank())] = b.view<float>(2, 8, 8).sub({{0, 2}, {4, 6}});
    if (comm.rank() == 1) receives[0] = b.view<float>(2, 8, 8).sub({{0, 2}, {0, 3}});
    CHECK_THROWS_AS(static_cast<void>(comm.all_to_all_v(std::span(sends), std::span<const View<float>>(receives))),
                    CollectiveMismatch);
    comm.all_reduce(x, x).wait();  // goes on
    comm.close();
  });
}

TEST_CASE("After abort every call throws, in what was split too; peers are told by the launcher") {
  const Fresh fresh;
  const auto body = [](NcclComm& comm) {
    auto part = comm.split(0, 0);
    if (comm.rank() == 0) {
      part->abort("enough");
      CHECK_THROWS_WITH_AS(comm.barrier(), "PeerFailed: rank 0 failed: enough", PeerFailed);
      CHECK_THROWS_AS(part->drain(), PeerFailed);
    } else {
      CHECK_THROWS_WITH_AS(part->barrier(), "PeerFailed: rank 0 failed: enough", PeerFailed);
    }
  };
  CHECK_THROWS_WITH_AS(launch_devices(2, soon(), body), "PeerFailed: rank 0 failed: enough", PeerFailed);
}

TEST_CASE("A message that is given up fails its rank; one to itself without its other half does not") {
  const Fresh fresh;
  const auto body = [](NcclComm& comm) {
    const Zeros a(comm);
    const View<float> x = a.view<float>(1, 4, 4);
    CHECK_THROWS_AS(comm.recv(x, comm.rank(), 3).wait(), TimeoutError);
    auto half = comm.send(x, comm.rank(), 4);
    CHECK_THROWS_AS(static_cast<void>(comm.recv(a.view<float>(2, 2, 2), comm.rank(), 4)), AliasError);
    const Zeros b(comm);
    CHECK_THROWS_AS(static_cast<void>(comm.recv(b.view<float>(2, 2, 2), comm.rank(), 4)), ShapeError);
    comm.barrier();
    if (comm.rank() == 1) static_cast<void>(comm.send(x, 0, 0));
    comm.barrier();
  };
  CHECK_THROWS_WITH_AS(launch_devices(2, soon(), body),
                       "PeerFailed: rank 1 failed: a message was given up before it was waited for", PeerFailed);
}

TEST_CASE("An exception that unwinds leaves the other communicators of the rank alive") {
  const Fresh fresh;
  launch_devices(2, [](NcclComm& comm) {
    try {
      auto part = comm.split(0, 0);
      const Zeros a(comm);
      static_cast<void>(part->all_reduce(a.view<float>(1, 4, 4), a.view<float>(1, 3, 3)));
      FAIL_CHECK("nothing was thrown");
    } catch (const ShapeError&) {  // on all ranks alike
    }
    CHECK(comm.agree(comm.rank()) == 1);
  });
}

}  // namespace
}  // namespace partita
