// SPDX-License-Identifier: Apache-2.0
// A body on the device and on the host, with the same data.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "partita/tensor/random.hpp"
#include "unit/cuda/support.hpp"

namespace partita::test {

/// The host memory that bodies of a test point to: from each first byte to one past its last.
inline std::map<std::byte*, std::byte*>& host_memory() {
  static std::map<std::byte*, std::byte*> ranges;
  return ranges;
}
template <class T>
struct HostMemory {
  explicit HostMemory(std::size_t count) : elements(count) {
    if (count > 0) host_memory()[begin()] = begin() + count * sizeof(T);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { host_memory().erase(begin()); }
  [[nodiscard]] std::byte* begin() { return reinterpret_cast<std::byte*>(elements.data()); }

  std::vector<T> elements;
};

/// While it lives, host memory holds other numbers: a body that finds a view of it, as it does not name the view, is
/// wrong.
class HiddenHost {
 public:
  HiddenHost() {
    for (const auto& [begin, end] : host_memory()) {
      saved_.emplace_back(begin, end);
      std::fill(begin, end, hidden);
    }
  }
  HiddenHost(const HiddenHost&) = delete;
  HiddenHost& operator=(const HiddenHost&) = delete;
  ~HiddenHost() {
    std::size_t next = 0;
    for (const auto& [begin, end] : host_memory()) {
      std::copy(saved_[next].begin(), saved_[next].end(), begin);
      ++next;
    }
  }
  [[nodiscard]] bool untouched() const {
    return std::all_of(host_memory().begin(), host_memory().end(), [](const auto& range) {
      return std::all_of(range.first, range.second, [](std::byte byte) { return byte == hidden; });
    });
  }

 private:
  static constexpr std::byte hidden{0x3f};  // numbers of about 0.7
  std::vector<std::vector<std::byte>> saved_;
};

/// Random numbers in rows with a gap between them.
template <class T>
class RandomBlock {
 public:
  RandomBlock(Shape shape, std::uint64_t seed, double low = -2.0, double high = 2.0)
      : shape_(shape), memory_(std::make_shared<HostMemory<T>>(static_cast<std::size_t>(shape.rows * ld()))) {
    for (std::size_t i = 0; i < memory_->elements.size(); ++i) {
      const double x = low + (high - low) * random_unit(seed, static_cast<index_t>(i), 0);
      memory_->elements[i] = static_cast<T>(static_cast<accumulate_t<T>>(x));
    }
    keep(memory_);
  }
  [[nodiscard]] View<T> view() const { return {memory_->elements.data(), shape_.rows, shape_.cols, ld()}; }

 private:
  [[nodiscard]] index_t ld() const { return shape_.cols + 3; }
  /// Views of temporary blocks stay good for a while.
  static void keep(const std::shared_ptr<HostMemory<T>>& memory) {
    host_memory();  // which ends later than what is kept here
    static std::deque<std::shared_ptr<HostMemory<T>>> latest;
    latest.push_back(memory);
    if (latest.size() > 8) latest.pop_front();
  }

  Shape shape_;
  std::shared_ptr<HostMemory<T>> memory_;
};

/// Numbers in [0, limit), one a row.
class Indices {
 public:
  Indices(index_t rows, index_t limit) : memory_(static_cast<std::size_t>(rows)) {
    for (std::size_t i = 0; i < memory_.elements.size(); ++i) {
      memory_.elements[i] =
          static_cast<std::int64_t>(random_unit(9, static_cast<index_t>(i), 1) * static_cast<double>(limit));
    }
  }
  [[nodiscard]] View<std::int64_t> view() const { return {data(), rows(), 1, 1}; }
  [[nodiscard]] View<std::int64_t> as_row() const { return {data(), 1, rows(), rows()}; }

 private:
  [[nodiscard]] std::int64_t* data() const { return const_cast<std::int64_t*>(memory_.elements.data()); }
  [[nodiscard]] index_t rows() const { return static_cast<index_t>(memory_.elements.size()); }
  HostMemory<std::int64_t> memory_;
};

/// The same bits on the stand-ins; a device rounds products and sums in one, and has its own exp.
template <class T>
bool equal(T a, T b) {
  if (!on_device) return std::memcmp(&a, &b, sizeof(T)) == 0;
  if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else {
    using A = accumulate_t<T>;
    const auto x = static_cast<double>(static_cast<A>(a));
    const auto y = static_cast<double>(static_cast<A>(b));
    const double unit = is_storage_only_v<T> ? 0.02 : std::is_same_v<T, float> ? 1e-4 : 1e-11;
    return x == y || std::fabs(x - y) <= unit * (1 + std::fabs(y));
  }
}

/// Device memory with what a host view spans, gaps included.
class Copies {
 public:
  explicit Copies(CudaBackend& backend) : backend_(backend) {}

  /// Puts the device's address into the view. Views of the same host memory share it.
  template <class T>
  void move(View<T>& view) {
    if (view.empty()) return;
    using Element = std::remove_const_t<T>;
    for (const Copy& copy : copies_) {
      if (copy.host != view.data) continue;
      view.data = static_cast<T*>(copy.memory.data());
      return;
    }
    const index_t n = elements(view);
    copies_.push_back({view.data, CudaMemory(static_cast<std::size_t>(n) * sizeof(T), backend_.stream())});
    auto* data = static_cast<Element*>(copies_.back().memory.data());
    backend_.copy<Element>(View<const Element>(view.data, 1, n, n), row_view(data, n));
    view.data = data;
  }
  /// Whether the device holds what the host does.
  template <class T>
  [[nodiscard]] bool same(View<T> host, View<T> device) {
    if (host.empty()) return true;
    using Element = std::remove_const_t<T>;
    const index_t n = elements(host);
    std::vector<Element> got(static_cast<std::size_t>(n));
    backend_.copy<Element>(View<const Element>(device.data, 1, n, n), row_view(got.data(), n));
    backend_.sync();
    for (index_t i = 0; i < n; ++i) {
      if (!equal<Element>(got[static_cast<std::size_t>(i)], host.data[i])) return false;
    }
    return true;
  }

 private:
  template <class T>
  static index_t elements(View<T> v) {
    return (v.rows - 1) * v.ld + v.cols;
  }
  struct Copy {
    const void* host;
    CudaMemory memory;
  };
  CudaBackend& backend_;
  std::vector<Copy> copies_;
};

/// Runs the body on copies of its views on the device, then on the views, and compares all that it touches.
template <class Body>
void check_body(CudaBackend& backend, index_t count, const Body& body) {
  CAPTURE(typeid(Body).name());
  Copies copies(backend);
  Body there = body;
  there.with_views([&](auto&... view) { (copies.move(view), ...); });
  {
    backend.sync();  // the copies are made
    const HiddenHost hidden;
    backend.for_each_index(count, there);
    backend.sync();
    CHECK(hidden.untouched());
  }
  run_body(count, body);
  Body here = body;
  here.with_views(
      [&](auto&... host) { there.with_views([&](auto&... device) { CHECK((copies.same(host, device) && ...)); }); });
}

}  // namespace partita::test
