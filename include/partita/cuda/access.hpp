// SPDX-License-Identifier: Apache-2.0
// What operations on a device touch, and which of two accesses must keep their order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "partita/base/view.hpp"

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
  // Columns of one matrix: positions modulo the pitch, relative to a's first byte. A single row has any pitch.
  const std::size_t common = a.rows == 1 ? b.pitch : a.pitch;
  if ((common != b.pitch && b.rows != 1) || a.width >= common || b.width >= common) return true;
  const auto pitch = static_cast<std::ptrdiff_t>(common);
  const std::ptrdiff_t shift = (b.data - a.data) % pitch;
  const auto start = static_cast<std::size_t>(shift < 0 ? shift + pitch : shift);
  return start < a.width || start + b.width > common;
}

/// Whether an access stays inside [data, data + bytes).
[[nodiscard]] inline bool within(const CudaAccess& access, const std::byte* data, std::size_t bytes) noexcept {
  const std::less<const std::byte*> before;
  return !access.empty() && !before(access.data, data) && !before(data + bytes, access.end());
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
  /// Forgets what lies within [data, data + bytes): the memory is given back.
  void forget_within(const std::byte* data, std::size_t bytes) {
    std::erase_if(entries_, [=](const Entry& entry) { return within(entry.access, data, bytes); });
  }
  /// Calls f(access) for all work up to this number.
  template <class F>
  void for_each_through(std::uint64_t work, F f) const {
    for (const Entry& entry : entries_) {
      if (entry.work <= work) f(entry.access);
    }
  }

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

}  // namespace partita
