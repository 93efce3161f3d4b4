// SPDX-License-Identifier: Apache-2.0
// Memory of the stand-ins: what it is filled with, who may touch it, and for how long.
#include "cuda_emulation/memory.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>

#include "unit/cuda_emulation/support.hpp"

namespace partita::cuda_emulation {
namespace {

bool all_nan(const void* device, std::size_t count) {
  const auto bytes = peek(device, count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    float x = 0;
    std::memcpy(&x, bytes.data() + i * sizeof(float), sizeof(float));
    if (!std::isnan(x)) return false;
  }
  return true;
}

TEST_CASE("Data goes to a device and back") {
  for (const Progress progress : all_progress) {
    const Fresh fresh(with(progress));
    const std::vector<float> values{1, 2, 3, 4, 5};
    const Array<float> a(values);
    CHECK(a.host() == values);
  }
}

TEST_CASE("The host cannot dereference a device address") {
  const Fresh fresh;
  const Array<float> a(4);
  const pid_t child = fork();
  if (child == 0) {
    for (const int s : {SIGSEGV, SIGBUS}) std::signal(s, SIG_DFL);
    *static_cast<volatile float*>(a.data) = 1;
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("Memory is NaN when it is new, and when it is freed") {
  const Fresh fresh;
  float* p = nullptr;
  ok(cudaMalloc(reinterpret_cast<void**>(&p), 64));
  CHECK(all_nan(p, 16));
  ok(cudaMemset(p, 0, 64));
  CHECK(!all_nan(p, 16));
  ok(cudaFree(p));
  CHECK(all_nan(p, 16));

  const Stream s;
  ok(cudaMallocAsync(reinterpret_cast<void**>(&p), 64, s));
  ok(cudaMemsetAsync(p, 0, 64, s));
  s.sync();
  CHECK(!all_nan(p, 16));
  ok(cudaFreeAsync(p, s));
  s.sync();
  CHECK(all_nan(p, 16));
}

TEST_CASE("A copy that leaves its allocation is found, one that fills it is not") {
  const Fresh fresh;
  const Array<float> a(8, "a");
  const std::vector<float> host(16, 1.0F);
  ok(cudaMemcpy(a.data, host.data(), a.bytes(), cudaMemcpyHostToDevice));
  found_nothing();
  CHECK(cudaMemcpy(a.data, host.data(), a.bytes() + 1, cudaMemcpyHostToDevice) != cudaSuccess);
  found(Finding::bounds, {"cudaMemcpy", "'a'", "beyond its 32 bytes"});
  CHECK(cudaMemcpy(a.data + 7, host.data(), 8, cudaMemcpyHostToDevice) != cudaSuccess);
  found(Finding::bounds, {"at byte 28"});
  // The last row of a rectangle is what counts, not its pitch.
  ok(cudaMemcpy2D(a.data + 2, 16, host.data(), 8, 8, 2, cudaMemcpyHostToDevice));
  found_nothing();
  CHECK(cudaMemcpy2D(a.data + 3, 16, host.data(), 8, 8, 2, cudaMemcpyHostToDevice) != cudaSuccess);
  found(Finding::bounds, {"cudaMemcpy2D"});
  CHECK(cudaMemset(a.data + 5000, 0, 4) != cudaSuccess);
  found(Finding::bounds, {"where nothing was allocated"});
}

TEST_CASE("The kind of a copy has to fit its pointers") {
  const Fresh fresh;
  const Array<float> a(8);
  const Array<float> b(8);
  std::vector<float> host(8, 1.0F);
  ok(cudaMemcpy(a.data, host.data(), 32, cudaMemcpyDefault));
  ok(cudaMemcpy(b.data, a.data, 32, cudaMemcpyDeviceToDevice));
  ok(cudaMemcpy(host.data(), b.data, 32, cudaMemcpyDeviceToHost));
  found_nothing();
  CHECK(cudaMemcpy(a.data, b.data, 32, cudaMemcpyHostToDevice) == cudaErrorInvalidMemcpyDirection);
  found(Finding::copy_kind, {"from device to device"});
  CHECK(cudaMemcpy(a.data, host.data(), 32, cudaMemcpyDeviceToHost) == cudaErrorInvalidMemcpyDirection);
  found(Finding::copy_kind, {"from host to device"});
}

TEST_CASE("Memory of another device is out of reach until peer access is enabled") {
  const Fresh fresh;
  const Array<float> a(std::vector<float>(8, 1.0F), "a");
  ok(cudaSetDevice(1));
  {
    const Stream s;
    CHECK(cudaMemsetAsync(a.data, 0, 32, s) != cudaSuccess);
    found(Finding::wrong_device, {"cudaMemsetAsync", "'a'", "of device 0, from device 1"});
    const Array<float> b(8);
    ok(cudaMemcpyPeerAsync(b.data, 1, a.data, 0, 32, s));
    s.sync();
    CHECK(b.host() == std::vector<float>(8, 1.0F));
    CHECK(cudaMemcpyPeerAsync(b.data, 0, a.data, 0, 32, s) != cudaSuccess);
    found(Finding::wrong_device, {"cudaMemcpyPeerAsync"});
    ok(cudaDeviceEnablePeerAccess(0, 0));
    ok(cudaMemsetAsync(a.data, 0, 32, s));
    s.sync();
  }
  ok(cudaSetDevice(0));
}

TEST_CASE("A use after a free is found, and so is a second free") {
  const Fresh fresh;
  const Stream s("s");
  for (const bool ordered : {false, true}) {
    CAPTURE(ordered);
    float* p = nullptr;
    ok(cudaMallocAsync(reinterpret_cast<void**>(&p), 64, s));
    name(p, "p");
    ok(cudaMemsetAsync(p, 0, 64, s));
    s.sync();
    ok(ordered ? cudaFreeAsync(p, s) : cudaFree(p));
    found_nothing();
    CHECK(cudaMemsetAsync(p, 0, 64, s) != cudaSuccess);
    found(Finding::use_after_free, {"cudaMemsetAsync", "'p'", ordered ? "cudaFreeAsync" : "cudaFree"});
    CHECK(cudaFreeAsync(p, s) != cudaSuccess);
    found(Finding::use_after_free, {"cudaFreeAsync", "'p'"});
  }
}

TEST_CASE("A free that a use may outlive is a race") {
  const Fresh fresh(racing());
  float* p = nullptr;
  {
    const Stream s("s");
    const Stream t("t");
    ok(cudaMallocAsync(reinterpret_cast<void**>(&p), 64, s));
    s.sync();
    ok(cudaMemsetAsync(p, 0, 64, t));
    ok(cudaFreeAsync(p, s));  // t may still run
    found(Finding::race, {"cudaMemsetAsync", "'t'", "cudaFreeAsync", "'s'"});

    ok(cudaMalloc(reinterpret_cast<void**>(&p), 64));
    ok(cudaMemsetAsync(p, 0, 64, s));
    ok(cudaFree(p));
    found(Finding::race, {"cudaMemsetAsync", "cudaFree"});

    ok(cudaMalloc(reinterpret_cast<void**>(&p), 64));
    ok(cudaMemsetAsync(p, 0, 64, s));
    s.sync();
    ok(cudaFree(p));
    found_nothing();
  }
}

TEST_CASE("A stale address is not handed out again soon, and memory comes back") {
  Options options;
  options.device_memory = 1 << 20;
  const Fresh fresh(options);
  std::vector<void*> seen;
  for (int i = 0; i < 300; ++i) {  // 300 times more than fits at once
    void* p = nullptr;
    ok(cudaMalloc(&p, 1 << 20));
    for (const void* old : seen) REQUIRE(old != p);
    seen.push_back(p);
    ok(cudaFree(p));
  }
  void* p = nullptr;
  CHECK(cudaMalloc(&p, (1 << 20) + 1) == cudaErrorMemoryAllocation);
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free == total);
}

TEST_CASE("Pageable memory is read at the call, page-locked memory when the copy runs") {
  const Fresh fresh(racing(with(Progress::latest)));
  {
    const Stream s;
    const Array<float> a(1);
    std::vector<float> pageable{1};
    ok(cudaMemcpyAsync(a.data, pageable.data(), 4, cudaMemcpyHostToDevice, s));
    pageable[0] = 2;
    s.sync();
    CHECK(a.host() == std::vector<float>{1});

    float* pinned = nullptr;
    ok(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4));
    host_writes(pinned, 4);
    *pinned = 1;
    ok(cudaMemcpyAsync(a.data, pinned, 4, cudaMemcpyHostToDevice, s));
    found_nothing();
    host_writes(pinned, 4);
    *pinned = 2;
    found(Finding::race, {"cudaMemcpyAsync", "the host writes"});
    s.sync();
    CHECK(a.host() == std::vector<float>{2});
    host_writes(pinned, 4);
    found_nothing();
    ok(cudaFreeHost(pinned));
  }
}

TEST_CASE("Pointers tell what they are") {
  const Fresh fresh;
  const Array<float> a(1);
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, a.data));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  float local = 0;
  ok(cudaPointerGetAttributes(&attributes, &local));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
}

}  // namespace
}  // namespace partita::cuda_emulation
