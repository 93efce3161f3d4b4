// SPDX-License-Identifier: Apache-2.0
// Calls that are made to fail, and the watchdog.
#include "cuda_emulation/faults.hpp"

#include <cublas_v2.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cuda_emulation/kernel.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

TEST_CASE("The n-th call fails, once, and has no effect") {
  const Fresh fresh;
  void* p = nullptr;
  fail_call({Library::cuda, 2, cudaErrorMemoryAllocation, "", any_device, false});
  ok(cudaMalloc(&p, 16));
  ok(cudaPeekAtLastError());
  void* q = nullptr;
  CHECK(cudaMalloc(&q, 16) == cudaErrorMemoryAllocation);
  CHECK(q == nullptr);
  CHECK(live().device_blocks == 1);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  ok(cudaMalloc(&q, 16));
  ok(cudaFree(p));
  ok(cudaFree(q));
  CHECK(counters().faults == 1);
}

TEST_CASE("A call fails by name, of one library, on one device") {
  const Fresh fresh;
  fail_call({Library::cuda, 1, cudaErrorInvalidValue, "cudaEventCreateWithFlags", any_device, false});
  fail_call({Library::cublas, 1, CUBLAS_STATUS_ALLOC_FAILED, "", any_device, false});
  fail_call({Library::cuda, 1, cudaErrorLaunchFailure, "cudaStreamQuery", 1, false});
  cudaEvent_t e = nullptr;
  ok(cudaDeviceSynchronize());
  CHECK(cudaEventCreateWithFlags(&e, 0) == cudaErrorInvalidValue);
  cublasHandle_t handle = nullptr;
  CHECK(cublasCreate(&handle) == CUBLAS_STATUS_ALLOC_FAILED);
  ok(cudaStreamQuery(nullptr));
  ok(cudaSetDevice(1));
  CHECK(cudaStreamQuery(nullptr) == cudaErrorLaunchFailure);
  ok(cudaSetDevice(0));
}

TEST_CASE("A free that fails still frees") {
  const Fresh fresh;
  void* p = nullptr;
  ok(cudaMalloc(&p, 16));
  fail_call({Library::cuda, 1, cudaErrorLaunchFailure, "cudaFree", any_device, false});
  CHECK(cudaFree(p) == cudaErrorLaunchFailure);
  CHECK(live().total() == 0);
}

TEST_CASE("Calls are counted by library") {
  const Fresh fresh;
  const Counters before = counters();
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  ok(cudaDeviceSynchronize());
  const Counters after = counters();
  CHECK(after.cublas - before.cublas == 2);
  CHECK(after.cuda - before.cuda == 1);
}

TEST_CASE("A wait is dropped on the device that is named") {
  const Fresh fresh;
  const Stream s;
  const Event e;
  ok(cudaEventRecord(e, s));
  drop_wait(1, 1);
  ok(cudaStreamWaitEvent(s, e, 0));
  CHECK(counters().dropped_waits == 0);
  ok(cudaSetDevice(1));
  ok(cudaStreamWaitEvent(s, e, 0));
  CHECK(counters().dropped_waits == 1);
  ok(cudaSetDevice(0));
}

Options watched(int ms) {
  Options options;
  options.watchdog = std::chrono::milliseconds(ms);
  return options;
}

TEST_CASE("When nothing moves, the watchdog names each stream's head, and every call fails") {
  const Fresh fresh(watched(100));
  static std::atomic<bool> begun{false};
  static std::atomic<bool> open{false};  // the stream's thread may look at it after the test
  cudaStream_t s = nullptr;
  cudaStream_t t = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  ok(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  name(s, "stuck");
  name(t, "waiting");
  const Event e;
  REQUIRE(launch("endless", s, {}, [] {
    begun = true;
    while (!open) std::this_thread::yield();
  }));
  ok(cudaEventRecord(e, s));
  ok(cudaStreamWaitEvent(t, e, 0));
  // Not while the host waits for CUDA: the watchdog would count how long the stream's thread takes to begin.
  for (int i = 0; !begun && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(cudaStreamSynchronize(t) == cudaErrorLaunchTimeout);
  found(Finding::hang, {"stream 'stuck' of device 0: endless, started",
                        "stream 'waiting' of device 0: cudaStreamWaitEvent, waiting for cudaEventRecord on stream "
                        "'stuck'"});
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchTimeout);
  open = true;
  ok(cudaStreamDestroy(s));
  ok(cudaStreamDestroy(t));
}

TEST_CASE("A poll that never ends is a hang too, a host that computes is not") {
  const Fresh fresh(watched(150));
  static std::atomic<bool> open{false};
  {
    const Stream s;
    REQUIRE(launch("endless", s, {}, [] {
      while (!open) std::this_thread::yield();
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    found_nothing();
    cudaError_t result = cudaErrorNotReady;
    while (result == cudaErrorNotReady) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      result = cudaStreamQuery(s);
    }
    CHECK(result == cudaErrorLaunchTimeout);
    found(Finding::hang, {"endless"});
    open = true;
  }
}

TEST_CASE("Slow work is not a hang") {
  const Fresh fresh(watched(1000));  // less than all kernels take together, and much more than one
  const Stream s;
  for (int i = 0; i < 8; ++i) {
    REQUIRE(launch("slow", s, {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }));
  }
  s.sync();
}

}  // namespace
}  // namespace partita::cuda_emulation
