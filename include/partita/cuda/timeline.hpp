// SPDX-License-Identifier: Apache-2.0
// The two streams of a rank, which wait for each other, and for those of other ranks on the device, where both touch
// the same memory, and nowhere else.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "partita/cuda/access.hpp"
#include "partita/cuda/debts.hpp"
#include "partita/cuda/handles.hpp"
#include "partita/cuda/line.hpp"

namespace partita {

/// A rank's stream for arithmetic and its stream of high priority for communication, on the device that is current when
/// it is made. Whoever gives work to one of them says before what it touches; the stream is then made to wait for the
/// other where that touches the same memory. Belongs to the thread of its rank. Backend and communicators of a rank
/// share one. Throws CudaError, NoDeviceError.
class CudaTimeline {
 public:
  using Accesses = std::span<const CudaAccess>;
  using AccessList = std::initializer_list<CudaAccess>;
  /// Called again and again while the host waits, with the time that it has waited: throws where it is in vain.
  using Watch = std::function<void(std::chrono::steady_clock::duration)>;

  /// The `ranks` whose timelines know of each other's points.
  explicit CudaTimeline(int rank = 0, int ranks = 1)
      : compute_(StreamPriority::usual, 2 * rank, 2 * ranks),
        communication_(StreamPriority::high, 2 * rank + 1, 2 * ranks),
        debts_(2 * ranks) {}

  [[nodiscard]] cudaStream_t compute() const noexcept { return compute_.stream(); }
  [[nodiscard]] cudaStream_t communication() const noexcept { return communication_.stream(); }

  /// Before work that touches `accesses` is given to compute().
  void before_compute(Accesses accesses) {
    if (const std::uint64_t work = moving_.latest_conflict(accesses); work > 0) {
      compute_.wait(communication_.point(work));
      moving_.forget_through(work);
    }
    debts_.settle(compute_, accesses);
    computing_.add(accesses, compute_.number() + 1);
  }
  void before_compute(AccessList accesses) { before_compute(Accesses(accesses.begin(), accesses.size())); }

  /// Before an operation that touches `accesses` is given to communication(), and after_communication() follows it; or
  /// before they are lent to a stream of another rank, whose line is `to`: what that stream itself did is no matter.
  void before_communication(Accesses accesses, int to = -1) {
    if (const std::uint64_t work = computing_.latest_conflict(accesses); work > 0) {
      if (work > compute_.number()) compute_.record();
      communication_.wait(compute_.point(work));
      remember_computed(work);
    }
    debts_.settle(communication_, accesses, to);
    remember_settled();
  }
  void before_communication(AccessList accesses) { before_communication(Accesses(accesses.begin(), accesses.size())); }
  /// The number of communication() among the streams that know of each other.
  [[nodiscard]] int line() const noexcept { return communication_.own(); }
  /// After the operation has been given to the stream, with the same accesses. The point at which it is over.
  detail::CudaPoint after_communication(Accesses accesses) {
    const std::uint64_t number = communication_.record();
    moving_.add(accesses, number);
    moved_.add(accesses, number);
    return communication_.point(number);
  }
  detail::CudaPoint after_communication(AccessList accesses) {
    return after_communication(Accesses(accesses.begin(), accesses.size()));
  }

  /// The point of communication() from which others may touch `accesses`, after before_communication() of the same.
  [[nodiscard]] detail::CudaPoint ready(Accesses accesses) {
    const std::uint64_t work = moved_.latest_conflict(accesses);
    if (work > communication_.number()) communication_.record();
    return communication_.point(work);
  }
  /// Lets communication() wait until a peer's memory is ready.
  void wait_for_peer(const detail::CudaPoint& ready) { communication_.wait(ready); }
  /// Another rank's stream touches this memory until a point.
  void owe(const CudaAccess& access, const detail::CudaPoint& until) {
    debts_.add(access, until);
    if (debts_.size() >= most_debts) settle_all();
  }
  /// This rank touches another's memory no more, on compute(): the point at which it is over.
  [[nodiscard]] detail::CudaPoint done_with(const CudaAccess& access) {
    debts_.forget_if([&access](const detail::CudaDebts::Debt& debt) { return debt.access == access; });
    CudaAccess all = access;
    all.writes = true;
    const std::uint64_t work = computing_.latest_conflict(Accesses(&all, 1));
    if (work > compute_.number()) compute_.record();
    return compute_.point(compute_.number());
  }

  /// Waits until both streams have done their work. What `watch` throws leaves the wait.
  void sync() {
    wait_for(compute());
    wait_for(communication());
    remember_computed(compute_.number() + 1);
    moving_ = {};
  }
  void sync_communication() {
    wait_for(communication());
    moving_ = {};
  }
  /// Copies device memory, once all work that the timeline knows of is done, row by row to the host: waits.
  void read(CudaAccess from, std::byte* to) {
    if (from.empty()) return;
    sync();  // which notices failed peers, where the copy would wait for them
    from.writes = false;
    before_compute({from});
    detail::cuda_check(cudaMemcpy2DAsync(to, from.width, from.data, from.pitch, from.width, from.rows,
                                         cudaMemcpyDeviceToHost, compute()),
                       "cudaMemcpy2DAsync");
    sync();
  }
  /// Ends a handle, for which CUDA waits until the device has done all its work, whoever has failed: at once where this
  /// timeline has none, and else when the timeline ends.
  void retire(detail::CublasOwner handle) noexcept {
    const auto idle = [](cudaStream_t stream) { return cudaStreamQuery(stream) == cudaSuccess; };
    if (handle.get() == nullptr || (idle(compute()) && idle(communication()))) return;
    try {
      retired_.push_back(std::move(handle));
    } catch (...) {  // then at once
    }
  }
  /// One watch for all waits: the communicator's, which learns of failed peers.
  void watch_with(Watch watch) { watch_ = std::move(watch); }

  /// Device memory, for what compute() does from now on. Throws CapacityError.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    void* data = nullptr;
    detail::cuda_check(cudaMallocAsync(&data, bytes, compute()), "cudaMallocAsync");
    before_compute({cuda_write(data, bytes)});
    return data;
  }
  /// Gives it back once both streams, and those of other ranks, are done with it. Never throws: what fails has failed
  /// before.
  void free(void* data, std::size_t bytes) noexcept {
    try {
      before_compute({cuda_write(data, bytes)});
      const auto* const first = static_cast<const std::byte*>(data);
      for (detail::CudaAccessLog* log : {&computing_, &moving_, &moved_}) log->forget_within(first, bytes);
      debts_.forget_if([=](const detail::CudaDebts::Debt& debt) { return detail::within(debt.access, first, bytes); });
    } catch (...) {  // streams do not wait any more, so the host does
      (void)cudaDeviceSynchronize();
    }
    (void)cudaFreeAsync(data, compute());
  }

 private:
  static constexpr std::size_t most_debts = 256;

  /// communication() has waited for this work of compute(), and what it is given next comes after it.
  void remember_computed(std::uint64_t work) {
    computing_.for_each_through(
        work, [this](const CudaAccess& access) { moved_.add(Accesses(&access, 1), communication_.number() + 1); });
    computing_.forget_through(work);
  }
  /// Debts that both streams know of are over.
  void remember_settled() {
    debts_.forget_if([this](detail::CudaDebts::Debt& debt) {
      if (!communication_.knows(debt.until)) return false;
      if (!std::exchange(debt.noted, true)) moved_.add(Accesses(&debt.access, 1), communication_.number() + 1);
      return compute_.knows(debt.until);
    });
  }
  void settle_all() {
    const CudaAccess everything = cuda_everything();
    debts_.settle(compute_, Accesses(&everything, 1));
    debts_.settle(communication_, Accesses(&everything, 1));
    remember_settled();
  }

  void wait_for(cudaStream_t stream) const {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0;; ++round) {
      const cudaError_t state = cudaStreamQuery(stream);
      if (state == cudaSuccess) return;
      if (state != cudaErrorNotReady) detail::cuda_check(state, "cudaStreamQuery");
      if (watch_) watch_(std::chrono::steady_clock::now() - start);
      if (round < spins) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }
  static constexpr int spins = 200;

  detail::CudaLine compute_;
  detail::CudaLine communication_;
  detail::CudaAccessLog computing_;  // by compute(), and not waited for by communication()
  detail::CudaAccessLog moving_;     // by communication(), and not waited for by compute()
  detail::CudaAccessLog moved_;      // that communication() did or comes after, by its points
  detail::CudaDebts debts_;
  Watch watch_;
  std::vector<detail::CublasOwner> retired_;
};

namespace detail {

/// A handle of the rank that has the timeline.
class TimelineCublas {
 public:
  explicit TimelineCublas(std::shared_ptr<CudaTimeline> timeline)
      : timeline_(std::move(timeline)), handle_(make_cublas()) {}
  TimelineCublas(TimelineCublas&& other) noexcept = default;
  TimelineCublas& operator=(TimelineCublas&& other) noexcept {
    std::swap(timeline_, other.timeline_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~TimelineCublas() {
    if (timeline_ != nullptr) timeline_->retire(std::move(handle_));
  }
  [[nodiscard]] cublasHandle_t get() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<CudaTimeline> timeline_;
  CublasOwner handle_;
};

}  // namespace detail

}  // namespace partita
