// SPDX-License-Identifier: Apache-2.0
// What one rank shares among all its NCCL communicators: streams, memory, who has failed, and how it waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "partita/base/error.hpp"
#include "partita/comm/nccl/block.hpp"
#include "partita/comm/nccl/error.hpp"
#include "partita/comm/nccl/messages.hpp"
#include "partita/comm/traffic.hpp"
#include "partita/cuda/host_memory.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita {

struct NcclOptions {
  /// A wait of the host that lasts longer throws TimeoutError in its rank.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  /// How a rank learns of failures that NCCL does not tell: called whenever it waits and when an operation begins, by
  /// the thread of the rank. Throws PeerFailed where a peer has failed.
  std::function<void()> listen;
  /// How it tells its own: called once, with the reason. Must not throw.
  std::function<void(const std::string&)> tell;
};

namespace detail {

/// One rank of the communicator that was made from a unique id, and of all that was split from it. After a failure all
/// of them are aborted, and every call throws PeerFailed.
class NcclWorld {
 public:
  using Clock = std::chrono::steady_clock;

  NcclWorld(int rank, std::shared_ptr<CudaTimeline> timeline, NcclOptions options)
      : rank_(rank), options_(std::move(options)), timeline_(std::move(timeline)) {
    timeline_->watch_with([this](Clock::duration waited) { watch("sync", waited); });
  }
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  ~NcclWorld() {
    if (std::uncaught_exceptions() > 0) abort_all();
    for (const ncclComm_t comm : std::exchange(retired_, {})) end(comm);
    timeline_->watch_with({});
    leave_host_memory();
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] const std::shared_ptr<CudaTimeline>& timeline() const noexcept { return timeline_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return timeline_->communication(); }
  [[nodiscard]] bool failed() const noexcept { return failure_.has_value(); }

  /// Throws PeerFailed after a failure, here or where `listen` knows of one.
  void check_alive() {
    if (failure_) throw PeerFailed(*failure_);
    listen();
  }
  /// The first failure is kept.
  void fail(const std::string& reason) noexcept {
    if (failed()) return;
    fail(PeerFailed(rank_, reason));
    try {
      if (options_.tell) options_.tell(reason);
    } catch (...) {  // nobody is left to tell
    }
  }

  /// Enqueues an operation that touches `accesses`, in the timeline's order. What is thrown fails the world.
  template <class F>
  void operate(F enqueue) {
    guard([&] {
      timeline_->before_communication(accesses);
      enqueue();
      timeline_->after_communication(accesses);
    });
  }
  /// Whatever is thrown once arguments are found right leaves the ranks in different places: the world fails.
  template <class F>
  void guard(F body) {
    try {
      body();
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
  }

  void check(ncclResult_t result, const char* call) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    listen();
    if (result == ncclRemoteError) throw_failed(PeerFailed(-1, nccl_text(result, call)));
    throw NcclError(result, nccl_text(result, call));
  }
  /// Waits until the communicator has taken what `call` gave it.
  void settle(ncclComm_t comm, const char* call) {
    await(call, [&] { return settled(comm, call); });
  }
  /// Waits for `ready()`, against the deadline.
  template <class Ready>
  void await(const char* name, Ready ready) {
    const auto start = Clock::now();
    for (int round = 0; !ready(); ++round) {
      watch(name, Clock::now() - start);
      if (round < 200) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
  /// Waits until what was given to the stream is done.
  void sync() { timeline_->sync_communication(); }

  /// `comm` is aborted with the others from now on.
  void enter(ncclComm_t* comm) { live_.push_back(comm); }
  /// Ends a communicator, on all its ranks: at once, or with the world where an exception unwinds.
  void leave(ncclComm_t* comm) noexcept {
    std::erase(live_, comm);
    if (*comm == nullptr) return;
    if (std::uncaught_exceptions() > 0 && !failed()) {
      try {
        retired_.push_back(*comm);
        return;
      } catch (...) {  // then at once
      }
    }
    end(*comm);
  }

  /// Device memory on the stream that operations use one after the other. Throws CapacityError.
  [[nodiscard]] std::byte* staging(std::size_t bytes) {
    if (staging_.bytes() < bytes) {
      const std::size_t wanted = std::max(bytes, 2 * staging_.bytes());
      staging_ = CudaMemory();
      staging_ = CudaMemory(wanted, stream());
    }
    return static_cast<std::byte*>(staging_.data());
  }
  /// Page-locked memory for who waits until the stream has done with it.
  [[nodiscard]] std::byte* host_words(std::size_t bytes) { return grown(words_, bytes); }
  /// The same, for operations that nobody waits for.
  [[nodiscard]] std::byte* host_sums(std::size_t bytes) { return grown(sums_, bytes); }
  /// Sums on the stream.
  [[nodiscard]] cublasHandle_t cublas() {
    if (cublas_.get() == nullptr) {
      CublasOwner made = make_cublas();
      cublas_check(cublasSetStream(made.get(), stream()), "cublasSetStream");
      cublas_ = std::move(made);
    }
    return cublas_.get();
  }
  void copy(const NcclBlock& from, const NcclBlock& to, cudaMemcpyKind kind = cudaMemcpyDeviceToDevice) const {
    cuda_check(cudaMemcpy2DAsync(to.data, to.pitch, from.data, from.pitch, from.width, from.rows, kind, stream()),
               "cudaMemcpy2DAsync");
  }

  TrafficCount traffic;
  NcclMessages messages;
  std::vector<CudaAccess> accesses;  // of the operation that begins
  std::vector<NcclBlock> parts;      // likewise

 private:
  [[noreturn]] void throw_failed(PeerFailed failure) {
    fail(failure);
    throw failure;
  }
  void fail(const PeerFailed& failure) noexcept {
    if (failed()) return;
    failure_.emplace(failure);
    messages.clear();
    abort_all();
    static_cast<void>(drained());
  }
  void abort_all() noexcept {
    for (ncclComm_t* const comm : live_) {
      if (*comm != nullptr) (void)ncclCommAbort(std::exchange(*comm, nullptr));
    }
    for (const ncclComm_t comm : std::exchange(retired_, {})) (void)ncclCommAbort(comm);
  }

  void listen() {
    if (!options_.listen) return;
    try {
      options_.listen();
    } catch (const PeerFailed& failure) {
      throw_failed(failure);
    }
  }
  [[nodiscard]] bool settled(ncclComm_t comm, const char* call) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    check(state, call);
    return state == ncclSuccess;
  }
  void watch(const char* name, Clock::duration waited) {
    check_alive();
    try {
      for (const ncclComm_t* const comm : live_) {
        if (*comm != nullptr) (void)settled(*comm, name);
      }
      if (waited > options_.deadline) throw_late(name);
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    }
  }

  /// Pre: it is not among the live ones any more. Its resources may be shared with those, which are dead too then.
  void end(ncclComm_t comm) noexcept {
    try {
      if (failed()) throw PeerFailed(*failure_);
      check(ncclCommFinalize(comm), "ncclCommFinalize");
      const auto start = Clock::now();
      while (!settled(comm, "ncclCommFinalize")) {
        listen();
        if (Clock::now() - start > options_.deadline) throw_late("the end of a communicator");
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      (void)ncclCommDestroy(comm);
    } catch (const std::exception& error) {
      (void)ncclCommAbort(comm);
      if (!live_.empty()) fail(error.what());
    }
  }
  [[noreturn]] void throw_late(const char* name) const {
    throw TimeoutError(std::string("TimeoutError: ") + name + " is not complete after " +
                       std::to_string(options_.deadline.count()) +
                       " ms; a peer has not entered it, or the deadline is too short");
  }

  /// Whether all that was given to the stream is done, once it no longer waits for peers: what it touched may go then,
  /// also where an operation was begun in part and the timeline does not know of it.
  [[nodiscard]] bool drained() const noexcept {
    const auto start = Clock::now();
    int errors = 0;
    while (Clock::now() - start < std::min<Clock::duration>(std::chrono::seconds(10), options_.deadline)) {
      const cudaError_t state = cudaStreamQuery(stream());
      if (state == cudaSuccess) return true;
      if (state != cudaErrorNotReady && ++errors > 2) return true;  // the device is lost, and touches nothing
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return false;
  }
  /// The stream may still use it. One that does not come to its end keeps it.
  void leave_host_memory() noexcept {
    if (words_.bytes() + sums_.bytes() == 0 || drained()) return;
    words_.leak();
    sums_.leak();
  }

  /// CUDA makes and frees such memory once the device has done all its work, and knows of no failed peer while it
  /// waits: that wait comes before.
  [[nodiscard]] std::byte* grown(CudaHostMemory& memory, std::size_t bytes) {
    if (memory.bytes() < bytes) {
      timeline_->sync();
      const std::size_t wanted = std::max(bytes, 2 * memory.bytes());
      memory = CudaHostMemory();
      memory = CudaHostMemory(wanted);
    }
    return static_cast<std::byte*>(memory.data());
  }

  int rank_;
  NcclOptions options_;
  std::shared_ptr<CudaTimeline> timeline_;
  std::optional<PeerFailed> failure_;
  std::vector<ncclComm_t*> live_;
  std::vector<ncclComm_t> retired_;
  CudaMemory staging_;
  CudaHostMemory words_;
  CudaHostMemory sums_;
  CublasOwner cublas_;
};

}  // namespace detail
}  // namespace partita
