// SPDX-License-Identifier: Apache-2.0
// The two streams of a rank, each of which waits for the other where both touch the same memory, and nowhere else.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/base/view.hpp"
#include "partita/cuda/handles.hpp"

namespace partita {

/// A rectangle of device memory that an operation reads, or writes.
struct CudaAccess {
  const std::byte* data = nullptr;
  std::size_t pitch = 0;  // bytes from one row to the next
  std::size_t width = 0;  // bytes of a row
  std::size_t rows = 0;
  bool writes = false;

  [[nodiscard]] bool empty() const noexcept { return width == 0 || rows == 0; }
  [[nodiscard]] const std::byte* end() const noexcept { return data + (rows - 1) * pitch + width; }
  friend bool operator==(const CudaAccess&, const CudaAccess&) = default;
};

/// What is read where T is const, and written (perhaps read too) where it is not.
template <class T>
[[nodiscard]] CudaAccess cuda_access(View<T> v) noexcept {
  if (v.empty()) return {};
  const auto bytes = [](index_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  return {reinterpret_cast<const std::byte*>(v.data), bytes(v.rows == 1 ? v.cols : v.ld), bytes(v.cols),
          static_cast<std::size_t>(v.rows), !std::is_const_v<T>};
}
[[nodiscard]] inline CudaAccess cuda_write(const void* data, std::size_t bytes) noexcept {
  return {static_cast<const std::byte*>(data), bytes, bytes, bytes == 0 ? std::size_t{0} : std::size_t{1}, true};
}

/// For work of which nothing else is known.
[[nodiscard]] inline CudaAccess cuda_everything() noexcept {
  return cuda_write(nullptr, std::numeric_limits<std::size_t>::max());
}

namespace detail {

/// Whether the order of the two accesses matters.
[[nodiscard]] inline bool conflict(const CudaAccess& a, const CudaAccess& b) noexcept {
  if ((!a.writes && !b.writes) || a.empty() || b.empty()) return false;
  const std::less<const std::byte*> before;
  if (!before(a.data, b.end()) || !before(b.data, a.end())) return false;
  if (a.pitch != b.pitch) return true;
  // Columns of one matrix: positions modulo the pitch, relative to a's first byte.
  const auto pitch = static_cast<std::ptrdiff_t>(a.pitch);
  const std::ptrdiff_t shift = (b.data - a.data) % pitch;
  const auto start = static_cast<std::size_t>(shift < 0 ? shift + pitch : shift);
  return start < a.width || start + b.width > a.pitch;
}

/// What one stream was given since the other one waited for it. Work is numbered in the order of its stream.
class CudaAccessLog {
 public:
  /// The latest work that conflicts with one of these accesses, or 0.
  [[nodiscard]] std::uint64_t latest_conflict(std::span<const CudaAccess> accesses) const noexcept {
    std::uint64_t latest = 0;
    for (const Entry& entry : entries_) {
      if (entry.work <= latest) continue;
      const auto meets = [&entry](const CudaAccess& access) { return conflict(entry.access, access); };
      if (std::any_of(accesses.begin(), accesses.end(), meets)) latest = entry.work;
    }
    return latest;
  }
  void add(std::span<const CudaAccess> accesses, std::uint64_t work) {
    for (const CudaAccess& access : accesses) {
      if (access.empty()) continue;
      const auto known = std::find_if(entries_.begin(), entries_.end(),
                                      [&access](const Entry& entry) { return entry.access == access; });
      if (known != entries_.end()) {
        known->work = work;
      } else {
        if (entries_.size() == most) join();
        entries_.push_back({access, work});
      }
    }
  }
  void forget_through(std::uint64_t work) {
    std::erase_if(entries_, [work](const Entry& entry) { return entry.work <= work; });
  }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

 private:
  struct Entry {
    CudaAccess access;
    std::uint64_t work;
  };
  static constexpr std::size_t most = 64;

  /// Forgets what exactly was touched: one rectangle of all, written. Then waits are more than are needed, never fewer.
  void join() {
    const std::less<const std::byte*> before;
    Entry all = entries_.front();
    const std::byte* end = all.access.end();
    for (const Entry& entry : entries_) {
      if (before(entry.access.data, all.access.data)) all.access.data = entry.access.data;
      if (before(end, entry.access.end())) end = entry.access.end();
      all.work = std::max(all.work, entry.work);
    }
    const auto bytes = static_cast<std::size_t>(end - all.access.data);
    entries_.assign(1, {cuda_write(all.access.data, bytes), all.work});
  }

  std::vector<Entry> entries_;
};

}  // namespace detail

/// A rank's stream for arithmetic and its stream of high priority for communication, on the device that is current when
/// it is made. Whoever gives work to one of them says before what it touches; the stream is then made to wait for the
/// other where that touches the same memory. Belongs to the thread of its rank. Backend and communicators of a rank
/// share one. Throws CudaError, NoDeviceError.
class CudaTimeline {
 public:
  /// Called again and again while the host waits, with the time that it has waited: throws where it is in vain.
  using Watch = std::function<void(std::chrono::steady_clock::duration)>;

  [[nodiscard]] cudaStream_t compute() const noexcept { return compute_.get(); }
  [[nodiscard]] cudaStream_t communication() const noexcept { return communication_.get(); }

  /// Before work that touches `accesses` is given to compute().
  void before_compute(std::span<const CudaAccess> accesses) {
    if (const std::uint64_t work = moving_.latest_conflict(accesses); work > 0) wait_for_communication(work);
    computing_.add(accesses, 1);
  }
  void before_compute(std::initializer_list<CudaAccess> accesses) {
    before_compute(std::span(accesses.begin(), accesses.size()));
  }

  /// Before an operation that touches `accesses` is given to communication(); after_communication() follows it.
  void before_communication(std::span<const CudaAccess> accesses) {
    if (computing_.latest_conflict(accesses) == 0) return;
    computed_.record(compute());
    computed_.hold(communication());
    computing_ = {};
  }
  void before_communication(std::initializer_list<CudaAccess> accesses) {
    before_communication(std::span(accesses.begin(), accesses.size()));
  }
  /// After the operation has been given to the stream, with the same accesses.
  void after_communication(std::span<const CudaAccess> accesses) {
    ++moved_;
    event_of(moved_).record(communication());
    moving_.add(accesses, moved_);
  }
  void after_communication(std::initializer_list<CudaAccess> accesses) {
    after_communication(std::span(accesses.begin(), accesses.size()));
  }

  /// Waits until both streams have done their work. What `watch` throws leaves the wait.
  void sync() {
    wait_for(compute());
    wait_for(communication());
    computing_ = {};
    moving_ = {};
  }
  void sync_communication() {
    wait_for(communication());
    moving_ = {};
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
  /// Gives it back once both streams are done with it. Never throws: what fails has failed before.
  void free(void* data, std::size_t bytes) noexcept {
    try {
      before_compute({cuda_write(data, bytes)});
    } catch (...) {  // the memory is given back all the same
    }
    (void)cudaFreeAsync(data, compute());
  }

 private:
  static constexpr std::uint64_t events = 64;

  /// Two that far apart share an event: who waits for the earlier one waits for the later one then.
  CudaEvent& event_of(std::uint64_t work) noexcept { return events_[static_cast<std::size_t>(work % events)]; }

  void wait_for_communication(std::uint64_t work) {
    event_of(work).hold(compute());
    moving_.forget_through(work);
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

  CudaStream compute_;
  CudaStream communication_{StreamPriority::high};
  CudaEvent computed_;
  std::array<CudaEvent, events> events_;
  std::uint64_t moved_ = 0;
  detail::CudaAccessLog computing_;
  detail::CudaAccessLog moving_;
  Watch watch_;
};

}  // namespace partita
