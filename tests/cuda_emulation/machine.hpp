// SPDX-License-Identifier: Apache-2.0
// The emulated machine: one lock over all bookkeeping, and whoever waits for it to change.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cuda_emulation/faults.hpp"
#include "cuda_emulation/memory.hpp"
#include "cuda_emulation/operation.hpp"
#include "cuda_emulation/order.hpp"
#include "cuda_emulation/stream.hpp"

namespace partita::cuda_emulation {

struct Device {
  std::shared_ptr<CUstream_st> legacy;              // the default stream, made when first used
  std::set<int> peers;                              // devices whose memory this one may reach
  const void* collective = nullptr;                 // which NCCL operation runs (one_collective_per_device)
  std::vector<std::shared_ptr<Operation>> leaving;  // the last ones of destroyed streams
  Clock left;                                       // and what is known of those that are done
  sanitizer::Edge ended;                            // the same, of streams whose thread is gone
  std::shared_ptr<Block> collective_slot = std::make_shared<Block>();
};

enum class Who { host, worker, idle };

/// Everything is under `mutex`. Operations leave it while they move bytes.
class Machine {
 public:
  Machine();

  std::mutex mutex;
  Options options;
  Faults faults;
  Memory memory;
  Order order;
  std::vector<Device> devices;
  std::map<CUstream_st*, std::shared_ptr<CUstream_st>> streams;
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<int, CUmemPoolHandle_st> pools;
  std::set<const void*> cublas_objects;
  std::shared_ptr<void> nccl;  // its communicators (nccl_comm.hpp)
  int communicators = 0;
  bool broken = false;  // nothing moved for too long: everything fails from now on
  std::uint64_t progress = 0;
  std::uint64_t polls = 0;  // queries that found unfinished work

  /// Waits until `ready()`, or until the machine is broken. `changed()` wakes it.
  void await(Lock& lock, Who who, const std::function<bool()>& ready);
  /// Tells waiters that something changed.
  void changed();

  /// Appends an operation to its stream, in the order of all others; wakes the stream's thread.
  /// Pre: name, stream, after, accesses (admitted), work, peers are set.
  std::shared_ptr<Operation> enqueue(Operation&& operation);
  void enqueue(const std::shared_ptr<Operation>& operation);
  /// With Progress::earliest, waits until no operation can go on.
  void rest(Lock& lock);
  /// Marks what must run so that the operation ends (Progress::latest).
  void demand(Operation& operation);
  /// Blocks the host until the device is idle, destroyed streams among it; with `learns`, orders the thread after it.
  void synchronise_device(Lock& lock, int device, bool learns);
  /// Blocks the host until the operation is done, and orders the thread after it.
  void synchronise(Lock& lock, const std::shared_ptr<Operation>& operation);
  /// Whether the operation is done; if so, orders the thread after it.
  bool query(const std::shared_ptr<Operation>& operation);
  /// The operation ends without doing its work, whether it waits or runs.
  void drop(const std::shared_ptr<Operation>& operation);
  /// The calling thread knows that the operation is done.
  void host_learns(Operation& operation);

  std::shared_ptr<CUstream_st> open_stream(int device, bool blocking, int priority);
  void close_stream(const std::shared_ptr<CUstream_st>& stream);
  /// The stream of a handle; null, with a report, if there is none.
  std::shared_ptr<CUstream_st> stream_of(cudaStream_t handle, const char* who);

  /// Finds the block of each access, and checks that it lies in live memory that `device` can reach.
  bool admit(int device, const std::string& who, std::vector<Access>& accesses);

  void report(Finding kind, const std::string& text) { order.report(kind, text); }
  /// Nothing moves: everything ends now, and every call fails.
  void give_up();
  [[nodiscard]] std::string heads() const;
  /// Ends all threads and forgets everything. Pre: no call is under way.
  void clear(Lock& lock);
  void open(const Options& options);

 private:
  struct Waiter {
    const std::function<bool()>* ready;
    Who who;
    bool released = false;
    std::condition_variable wake;
  };
  void work(const std::shared_ptr<CUstream_st>& stream);
  [[nodiscard]] bool may_start(const Operation& operation) const;
  void watch();

  std::vector<Waiter*> waiters_;
  int workers_ = 0;  // threads of streams
  int running_ = 0;  // those of them that do not wait
  std::uint64_t streams_made_ = 0;
};

/// Made on first use, and never destroyed: threads of streams may outlive main.
Machine& machine();

/// The calling thread's current device.
int& current_device();
/// Whether the calling thread runs a function of cudaLaunchHostFunc.
bool& in_host_function();

/// Runs `f` without the lock: what operations touch, they touch here.
template <class F>
void unlocked(Lock& lock, F f) {
  const sanitizer::HiddenAccesses hidden(!machine().options.shown);
  lock.unlock();
  f();
  lock.lock();
}

/// Runs `f` with the lock, and yet shown to the thread sanitizer: what a call itself does to the program's memory.
template <class F>
void shown(F f) {
  const sanitizer::HiddenAccesses hidden(!machine().options.shown);
  sanitizer::show();
  f();
  sanitizer::hide();
}

}  // namespace partita::cuda_emulation
