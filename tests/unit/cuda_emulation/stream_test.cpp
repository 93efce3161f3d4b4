// SPDX-License-Identifier: Apache-2.0
// Streams and events of the stand-ins: asynchronous, in order, joined by events alone.
#include "cuda_emulation/stream.hpp"

#include <atomic>
#include <chrono>

#include "cuda_emulation/kernel.hpp"
#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

/// Holds a stream until it is let go.
struct Gate {
  std::atomic<bool> open{false};
  void on(cudaStream_t stream) {
    ok(cudaLaunchHostFunc(
        stream,
        [](void* gate) {
          while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
        },
        this));
  }
};

TEST_CASE("A stream runs in order, while the host goes on") {
  const Fresh fresh;
  const Stream s;
  Gate gate;
  gate.on(s);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    CHECK(launch("note", s, {}, [&order, i] { order.push_back(i); }));
  }
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
  gate.open = true;
  s.sync();
  CHECK(order == std::vector<int>{0, 1, 2});
  CHECK(cudaStreamQuery(s) == cudaSuccess);
}

TEST_CASE("An event takes the generation of its record, a wait the latest at the call") {
  const Fresh fresh;
  const Stream s;
  const Stream t;
  const Event e;
  ok(cudaStreamWaitEvent(t, e, 0));  // never recorded: nothing to wait for
  t.sync();
  CHECK(cudaEventQuery(e) == cudaSuccess);
  ok(cudaEventRecord(e, s));
  Gate gate;
  {
    ok(cudaStreamWaitEvent(t, e, 0));  // the first record
    gate.on(s);
    ok(cudaEventRecord(e, s));  // the second does not hold t
    t.sync();
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    ok(cudaStreamWaitEvent(t, e, 0));
    CHECK(cudaStreamQuery(t) == cudaErrorNotReady);
  }
  gate.open = true;
  ok(cudaEventSynchronize(e));
  t.sync();
}

TEST_CASE("The default stream joins blocking streams and not others") {
  const Fresh fresh;
  cudaStream_t blocking = nullptr;
  ok(cudaStreamCreate(&blocking));
  const Stream free;
  Gate gate;
  gate.on(blocking);
  ok(cudaLaunchHostFunc(nullptr, [](void*) {}, nullptr));
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  ok(cudaLaunchHostFunc(free, [](void*) {}, nullptr));
  free.sync();
  gate.open = true;
  ok(cudaStreamSynchronize(nullptr));
  Gate second;
  second.on(nullptr);
  ok(cudaLaunchHostFunc(blocking, [](void*) {}, nullptr));
  CHECK(cudaStreamQuery(blocking) == cudaErrorNotReady);
  second.open = true;
  ok(cudaDeviceSynchronize());
  ok(cudaStreamDestroy(blocking));
}

TEST_CASE("A stream that is destroyed finishes its work") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    std::atomic<int> done{0};
    cudaStream_t s = nullptr;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(launch("count", s, {}, [&] { ++done; }));
    ok(cudaStreamDestroy(s));
    while (done == 0) std::this_thread::yield();
    CHECK(cudaStreamQuery(s) == cudaErrorInvalidResourceHandle);
    found(Finding::misuse, {"cudaStreamQuery", "destroyed"});
  }
}

TEST_CASE("Latest: nothing runs before it is asked for. Earliest: all runs before the call returns") {
  for (const Progress progress : {Progress::latest, Progress::earliest}) {
    const Fresh fresh(with(progress));
    const Stream s;
    const Stream t;
    const Event e;
    std::atomic<int> done{0};
    const bool early = progress == Progress::earliest;
    CHECK(launch("first", s, {}, [&] { ++done; }));
    CHECK(done == (early ? 1 : 0));
    ok(cudaEventRecord(e, s));
    CHECK(launch("second", s, {}, [&] { ++done; }));
    ok(cudaStreamWaitEvent(t, e, 0));
    if (!early) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(done == (early ? 2 : 0));
    t.sync();  // demands the record, and what stands before it
    CHECK(done == (early ? 2 : 1));
    s.sync();
    CHECK(done == 2);
  }
}

TEST_CASE("Events time what lies between them, if they are made for it") {
  const Fresh fresh;
  const Stream s;
  cudaEvent_t a = nullptr;
  cudaEvent_t b = nullptr;
  ok(cudaEventCreate(&a));
  ok(cudaEventCreate(&b));
  ok(cudaEventRecord(a, s));
  ok(cudaEventRecord(b, s));
  s.sync();
  float ms = -1;
  ok(cudaEventElapsedTime(&ms, a, b));
  CHECK(ms >= 0);
  const Event untimed;
  ok(cudaEventRecord(untimed, s));
  s.sync();
  CHECK(cudaEventElapsedTime(&ms, a, untimed) == cudaErrorInvalidResourceHandle);
  ok(cudaEventDestroy(a));
  ok(cudaEventDestroy(b));
}

TEST_CASE("Objects of another device are refused where CUDA refuses them") {
  const Fresh fresh;
  const Stream s("s");
  ok(cudaSetDevice(1));
  {
    const Event e;
    CHECK(cudaEventRecord(e, s) != cudaSuccess);
    found(Finding::wrong_device, {"cudaEventRecord", "device 1", "'s' of device 0"});
    CHECK(!launch("kernel", s, {}, [] {}));
    found(Finding::wrong_device, {"kernel", "device 1 is current"});
  }
  ok(cudaSetDevice(0));
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
}

TEST_CASE("A host function may not call CUDA") {
  const Fresh fresh;
  const Stream s;
  ok(cudaLaunchHostFunc(s, [](void*) { cudaStreamQuery(nullptr); }, nullptr));
  s.sync();
  found(Finding::misuse, {"cudaStreamQuery", "cudaLaunchHostFunc"});
}

TEST_CASE("Without a device, calls say so") {
  Options options;
  options.devices = 0;
  const Fresh fresh(options);
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaErrorNoDevice);
}

}  // namespace
}  // namespace partita::cuda_emulation
