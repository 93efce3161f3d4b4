// SPDX-License-Identifier: Apache-2.0
// cuda_waits CASE told|missing: small programs on the stand-ins for CUDA and NCCL, each with the one wait that it
// needs, or without. The thread sanitizer has to find nothing in the one and a data race in the other: it is shown what
// operations touch and the order that CUDA promises, and no more than that.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

constexpr std::size_t count = 64;
constexpr std::size_t bytes = count * sizeof(float);

template <class Result>
void ok(Result result) {
  if (result == Result{}) return;
  std::fprintf(stderr, "a call failed: %d\n", static_cast<int>(result));
  std::abort();
}

struct Stream {
  cudaStream_t handle = nullptr;
  explicit Stream(unsigned flags = cudaStreamNonBlocking) { ok(cudaStreamCreateWithFlags(&handle, flags)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    ok(cudaStreamSynchronize(handle));
    ok(cudaStreamDestroy(handle));
  }
  operator cudaStream_t() const { return handle; }  // NOLINT
  void sync() const { ok(cudaStreamSynchronize(handle)); }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { ok(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { ok(cudaEventDestroy(handle)); }
  /// Work of `later` from now on comes after what `earlier` has been given, where the wait is there.
  void between(const Stream& earlier, const Stream& later, bool waits) const {
    ok(cudaEventRecord(handle, earlier));
    if (waits) ok(cudaStreamWaitEvent(later, handle, 0));
  }
  Event& record(const Stream& stream) {
    ok(cudaEventRecord(handle, stream));
    return *this;
  }
};

/// Outlives the streams that are declared after it, whose ends wait for them.
struct Array {
  float* data = nullptr;
  Array() {
    ok(cudaMalloc(reinterpret_cast<void**>(&data), bytes));
    ok(cudaMemset(data, 0, bytes));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { ok(cudaFree(data)); }
  void fill(const Stream& stream) const { ok(cudaMemsetAsync(data, 0, bytes, stream)); }
  void copy_to(float* other, const Stream& stream) const {
    ok(cudaMemcpyAsync(other, data, bytes, cudaMemcpyDefault, stream));
  }
};

struct Pinned {
  float* data = nullptr;
  Pinned() {
    ok(cudaMallocHost(reinterpret_cast<void**>(&data), bytes));
    std::memset(data, 0, bytes);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { ok(cudaFreeHost(data)); }
};

/// The host looks at a number.
void look(const float& x) {
  const volatile float seen = x;
  (void)seen;
}

// ---- The host and a stream ------------------------------------------------------------------------------------------

void read_back(bool waits) {
  const Array a;
  const Pinned host;
  const Stream s;
  a.copy_to(host.data, s);
  if (waits) s.sync();
  look(host.data[0]);
}

void refill(bool waits) {
  const Array a;
  const Pinned host;
  const Stream s;
  ok(cudaMemcpyAsync(a.data, host.data, bytes, cudaMemcpyDefault, s));
  if (waits) s.sync();
  host.data[0] = 1;
}

/// An event orders what was given to the stream before its record.
void late_event(bool waits) {
  const Array a;
  const Pinned host;
  const Stream s;
  Event e;
  if (!waits) e.record(s);
  a.copy_to(host.data, s);
  if (waits) e.record(s);
  ok(cudaEventSynchronize(e.handle));
  look(host.data[0]);
}

/// Time is no order, a query that succeeds is one.
void poll(bool waits) {
  const Array a;
  const Pinned host;
  const Stream s;
  a.copy_to(host.data, s);
  if (waits) {
    while (cudaStreamQuery(s) == cudaErrorNotReady) std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  look(host.data[0]);
}

void host_function(bool waits) {
  static float written = 0;
  const Stream s;
  ok(cudaLaunchHostFunc(s, [](void*) { written = 1; }, nullptr));
  if (waits) s.sync();
  look(written);
}

/// A stream that is gone is a part of its device.
void destroyed_stream(bool waits) {
  const Array a;
  const Pinned host;
  const Event e;
  cudaStream_t s = nullptr;
  ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  ok(cudaMemcpyAsync(host.data, a.data, bytes, cudaMemcpyDefault, s));
  ok(cudaEventRecord(e.handle, s));
  ok(cudaStreamDestroy(s));
  if (waits) ok(cudaDeviceSynchronize());
  look(host.data[0]);
  ok(cudaEventSynchronize(e.handle));
}

/// A call tells its operation what its own thread knows, and nothing of other threads.
void other_thread(bool waits) {
  const Array a;
  const Pinned host;
  const Stream s;
  std::atomic<bool> filled{false};
  std::thread filler([&] {
    host.data[0] = 1;
    filled.store(true, waits ? std::memory_order_release : std::memory_order_relaxed);
  });
  while (!filled.load(waits ? std::memory_order_acquire : std::memory_order_relaxed)) std::this_thread::yield();
  ok(cudaMemcpyAsync(a.data, host.data, bytes, cudaMemcpyDefault, s));
  s.sync();
  filler.join();
}

// ---- Two streams ----------------------------------------------------------------------------------------------------

void two_streams(bool waits) {
  const Array a;
  const Stream s;
  const Stream t;
  const Event e;
  a.fill(s);
  e.between(s, t, waits);
  a.fill(t);
}

void write_after_read(bool waits) {
  const Array a;
  const Array b;
  const Stream s;
  const Stream t;
  const Event e;
  a.copy_to(b.data, s);
  e.between(s, t, waits);
  a.fill(t);
}

void default_stream(bool waits) {
  const Array a;
  const Stream s(waits ? cudaStreamDefault : cudaStreamNonBlocking);
  ok(cudaMemsetAsync(a.data, 0, bytes, nullptr));
  a.fill(s);
  ok(cudaStreamSynchronize(nullptr));
}

void multiply(cublasHandle_t handle, const Stream& stream, const Array& a, const Array& out) {
  const float one = 1;
  const float zero = 0;
  ok(cublasSetStream(handle, stream));
  ok(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, a.data, CUDA_R_32F, 8, a.data, CUDA_R_32F, 8, &zero,
                  out.data, CUDA_R_32F, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void operand(bool waits) {
  const Array a;
  const Array out;
  const Stream s;
  const Stream t;
  const Event e;
  cublasHandle_t handle = nullptr;
  ok(cublasCreate(&handle));
  a.fill(s);
  e.between(s, t, waits);
  multiply(handle, t, a, out);
  ok(cublasDestroy(handle));
}

void result(bool waits) {
  const Array a;
  const Array out;
  const Array copy;
  const Stream s;
  const Stream t;
  const Event e;
  cublasHandle_t handle = nullptr;
  ok(cublasCreate(&handle));
  multiply(handle, s, a, out);
  e.between(s, t, waits);
  out.copy_to(copy.data, t);
  ok(cublasDestroy(handle));
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

/// Memory of s that t writes: once it begins, and before it ends.
void pool(bool begins, bool ends) {
  const Stream s;
  const Stream t;
  const Event e;
  const Event f;
  void* p = nullptr;
  ok(cudaMallocAsync(&p, bytes, s));
  e.between(s, t, begins);
  ok(cudaMemsetAsync(p, 0, bytes, t));
  f.between(t, s, ends);
  ok(cudaFreeAsync(p, s));
}
void pool_begin(bool waits) { pool(waits, true); }
void pool_end(bool waits) { pool(true, waits); }

/// cudaFree waits for the device here, and a program may not rely on it.
void free_in_use(bool waits) {
  const Stream s;
  void* p = nullptr;
  ok(cudaMalloc(&p, bytes));
  ok(cudaMemsetAsync(p, 0, bytes, s));
  if (waits) s.sync();
  ok(cudaFree(p));
}

// ---- Ranks ----------------------------------------------------------------------------------------------------------

/// f(rank, communicator) on a thread and a device each, after before(rank) on each.
template <class F, class Before>
void on_two_ranks(F f, Before before) {
  ncclUniqueId id;
  ok(ncclGetUniqueId(&id));
  const auto body = [&](int rank) {
    ok(cudaSetDevice(rank));
    before(rank);
    ncclComm_t comm = nullptr;
    ok(ncclCommInitRank(&comm, 2, id, rank));
    f(rank, comm);
    ok(ncclCommDestroy(comm));
  };
  std::thread zero(body, 0);
  std::thread one(body, 1);
  zero.join();
  one.join();
}

template <class F>
void on_two_ranks(F f) {
  on_two_ranks(f, [](int) {});
}

void sum(ncclComm_t comm, const Array& a, const Stream& s) {
  ok(ncclAllReduce(a.data, a.data, count, ncclFloat32, ncclSum, comm, s));
}
void broadcast(ncclComm_t comm, const Array& a, const Stream& s) {
  ok(ncclBroadcast(a.data, a.data, count, ncclFloat32, 0, comm, s));
}

void after_collective(bool waits) {
  on_two_ranks([waits](int, ncclComm_t comm) {
    const Array a;
    const Array copy;
    const Stream communication;
    const Stream compute;
    const Event e;
    sum(comm, a, communication);
    e.between(communication, compute, waits);
    a.copy_to(copy.data, compute);
  });
}

void before_collective(bool waits) {
  on_two_ranks([waits](int rank, ncclComm_t comm) {
    const Array a;
    const Stream communication;
    const Stream compute;
    const Event e;
    a.fill(compute);
    e.between(compute, communication, waits || rank == 1);
    broadcast(comm, a, communication);
  });
}

/// What a rank did before it sends is known to who receives, and not yet before the receive.
void receiver(bool waits) {
  const Array shared;
  on_two_ranks([&](int rank, ncclComm_t comm) {
    const Array a;
    const Stream s;
    if (rank == 1) ok(cudaDeviceEnablePeerAccess(0, 0));
    if (rank == 0 || !waits) shared.fill(s);
    broadcast(comm, a, s);
    if (rank == 1 && waits) shared.fill(s);
    s.sync();
  });
}

/// A broadcast's root learns nothing of its receivers; in a sum all learn of all.
void root(bool waits) {
  const Array shared;
  on_two_ranks([&](int rank, ncclComm_t comm) {
    const Array a;
    const Stream s;
    if (rank == 1) ok(cudaDeviceEnablePeerAccess(0, 0));
    if (rank == 1) shared.fill(s);
    if (waits) {
      sum(comm, a, s);
    } else {
      broadcast(comm, a, s);
    }
    if (rank == 0) shared.fill(s);
    s.sync();
  });
}

/// Who makes a communicator knows what the others did before they made it.
void meeting(bool waits) {
  const Pinned host;
  on_two_ranks(
      [&](int rank, ncclComm_t) {
        const Array a;
        const Stream s;
        if (rank == 0 && !waits) host.data[0] = 1;
        if (rank == 1) ok(cudaMemcpyAsync(a.data, host.data, bytes, cudaMemcpyDefault, s));
        s.sync();
      },
      [&](int rank) {
        if (rank == 0 && waits) host.data[0] = 1;
      });
}

struct Case {
  const char* name;
  void (*run)(bool waits);
};
constexpr Case cases[] = {
    {"read_back", read_back},
    {"refill", refill},
    {"late_event", late_event},
    {"poll", poll},
    {"host_function", host_function},
    {"destroyed_stream", destroyed_stream},
    {"other_thread", other_thread},
    {"two_streams", two_streams},
    {"write_after_read", write_after_read},
    {"default_stream", default_stream},
    {"operand", operand},
    {"result", result},
    {"pool_begin", pool_begin},
    {"pool_end", pool_end},
    {"free_in_use", free_in_use},
    {"after_collective", after_collective},
    {"before_collective", before_collective},
    {"receiver", receiver},
    {"root", root},
    {"meeting", meeting},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc == 3 ? argv[1] : "";
  const std::string_view way = argc == 3 ? argv[2] : "";
  for (const Case& c : cases) {
    if (wanted != c.name || (way != "told" && way != "missing")) continue;
    c.run(way == "told");
    std::printf("%s ran\n", c.name);
    return 0;
  }
  std::fprintf(stderr, "usage: %s CASE told|missing\n", argv[0]);
  return 2;
}
