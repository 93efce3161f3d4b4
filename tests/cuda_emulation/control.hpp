// SPDX-License-Identifier: Apache-2.0
// The tests' side of the stand-ins: modes, faults, reports, counters, names, and order between host threads.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita::cuda_emulation {

/// When operations run, within what is legal.
///   normal    as soon as their stream and their waits allow, while the host goes on
///   earliest  the host goes on only when nothing can run any more
///   latest    only what a synchronisation, a query or a free demands; results of a receive appear at its very end
enum class Progress { normal, earliest, latest };

struct Options {
  int devices = 8;
  Progress progress = Progress::normal;
  /// A device runs one NCCL operation at a time, and two that no order relates are reported as a race.
  bool one_collective_per_device = false;
  /// How long nothing may move while the host waits, before the machine is given up.
  std::chrono::milliseconds watchdog{20'000};
  std::size_t device_memory = std::size_t{1} << 30;
  /// Reports go to stderr too.
  bool print = false;
  /// A sanitizer sees what operations touch. Not for tests that make races on purpose; drop_wait() ends it by itself.
  bool shown = true;
};

/// A new machine: all streams, memory, handles and communicators of the old one are gone.
/// Pre: no other thread is in a call.
void reset(const Options& options = {});

enum class Finding {
  race,            // two conflicting accesses that no order relates
  bounds,          // outside an allocation
  copy_kind,       // the direction of a copy contradicts its pointers
  wrong_device,    // memory, stream, event or handle of another device
  use_after_free,  // also a second free
  mismatch,        // ranks that call different NCCL operations
  hang,            // nothing moves
  misuse,          // everything else that the documentation forbids
};

struct Report {
  Finding kind;
  std::string text;
};

/// What was found since the last call, oldest first; each pair of places once.
[[nodiscard]] std::vector<Report> take_reports();

enum class Library { cuda, cublas, nccl };
constexpr int any_device = -1;

/// The `nth` call (1 is the next) of the library `called`, or of the one `function`, fails with `code` and has no
/// effect, other than that a free or destroy still releases. Only calls of threads whose current device is `device`
/// count. `asynchronous` (NCCL only): the call succeeds, the operation never ends, and its communicator's asynchronous
/// error becomes `code`.
struct Fault {
  Library called = Library::cuda;
  std::int64_t nth = 1;
  int code = 0;
  std::string function;
  int device = any_device;
  bool asynchronous = false;
};
void fail_call(const Fault& fault);

/// The `nth` cudaStreamWaitEvent from now (1 is the next), of threads whose current device is `device`, does nothing.
void drop_wait(std::int64_t nth, int device = any_device);
/// The same for the calling thread alone; and how many it has asked for.
void drop_own_wait(std::int64_t nth);
[[nodiscard]] std::int64_t own_waits();

struct Counters {
  std::int64_t cuda = 0;            // calls
  std::int64_t cublas = 0;          // calls
  std::int64_t lt_products = 0;     // of cublasLtMatmul that have begun
  std::int64_t lt_auxiliaries = 0;  // of these with an auxiliary matrix: what GELU is applied to
  std::int64_t nccl = 0;            // calls
  std::int64_t waits = 0;           // cudaStreamWaitEvent
  std::int64_t operations = 0;
  std::int64_t pageable_copies = 0;
  std::int64_t faults = 0;  // injected so far
  std::int64_t dropped_waits = 0;
  std::int64_t clock_slots = 0;  // how long the clocks are: streams and host threads that are alive, and some more
};
[[nodiscard]] Counters counters();

/// What has been made and not yet given back.
struct Live {
  int device_blocks = 0;
  int host_blocks = 0;
  int streams = 0;
  int events = 0;
  int cublas_objects = 0;
  int communicators = 0;
  [[nodiscard]] int total() const {
    return device_blocks + host_blocks + streams + events + cublas_objects + communicators;
  }
};
[[nodiscard]] Live live();

/// Names for reports.
void name(cudaStream_t stream, const std::string& text);
void name(const void* memory, const std::string& text);

/// Order between host threads, which the stand-ins cannot see by themselves: all that the thread knows to have happened
/// at its publish(key) is known to a thread after its later observe(key). A barrier is a publish before, an observe
/// after it.
void publish(const void* key);
void observe(const void* key);

/// The host reads or writes memory of cudaHostAlloc.
void host_reads(const void* data, std::size_t bytes);
void host_writes(void* data, std::size_t bytes);

/// Bytes of device memory as they are now, past all order: for tests of the stand-ins themselves.
[[nodiscard]] std::vector<std::byte> peek(const void* device_memory, std::size_t bytes);

/// Each stream with unfinished work, and what stands at its head.
[[nodiscard]] std::string stream_heads();

}  // namespace partita::cuda_emulation
