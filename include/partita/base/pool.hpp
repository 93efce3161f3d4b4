// SPDX-License-Identifier: Apache-2.0
// Memory for short-lived records, used again: a repeated product allocates nothing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace partita::detail {

/// Pieces of powers of two bytes, kept in one list for each size and got by the page: how many are in use at once
/// depends on when peers come. For one thread.
class RecordPool {
 public:
  RecordPool() = default;
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  [[nodiscard]] void* take(std::size_t bytes) {
    const std::size_t list = list_of(bytes);
    if (list >= free_.size()) return ::operator new(bytes);
    if (free_[list] == nullptr) grow(list);
    return std::exchange(free_[list], free_[list]->next);
  }
  void give(void* data, std::size_t bytes) noexcept {
    const std::size_t list = list_of(bytes);
    if (list >= free_.size()) return ::operator delete(data);
    free_[list] = ::new (data) Piece{free_[list]};
  }

 private:
  struct Piece {
    Piece* next;
  };
  static constexpr std::size_t smallest = 64;
  static constexpr std::size_t page = 16384;

  /// The list of the smallest pieces that are long enough.
  [[nodiscard]] static std::size_t list_of(std::size_t bytes) noexcept {
    return bytes <= smallest ? 0 : static_cast<std::size_t>(std::bit_width((bytes - 1) / smallest));
  }
  void grow(std::size_t list) {
    const std::size_t size = smallest << list;
    const std::size_t count = size < page ? page / size : 1;
    pages_.push_back(std::make_unique_for_overwrite<std::byte[]>(count * size));
    std::byte* const first = pages_.back().get();
    for (std::size_t i = 0; i < count; ++i)
      free_[list] = ::new (static_cast<void*>(first + i * size)) Piece{free_[list]};
  }

  std::array<Piece*, 12> free_{};  // 64 bytes to 128 KiB
  std::vector<std::unique_ptr<std::byte[]>> pages_;
};

/// An allocator over a shared pool, which outlives what was taken from it.
template <class T>
class Pooled {
 public:
  using value_type = T;

  explicit Pooled(std::shared_ptr<RecordPool> pool) noexcept : pool_(std::move(pool)) {}
  template <class U>
  Pooled(const Pooled<U>& other) noexcept  // NOLINT(google-explicit-constructor): allocators convert
      : pool_(other.pool()) {}

  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(pool_->take(count * sizeof(T))); }
  void deallocate(T* data, std::size_t count) noexcept { pool_->give(data, count * sizeof(T)); }
  [[nodiscard]] const std::shared_ptr<RecordPool>& pool() const noexcept { return pool_; }

  template <class U>
  friend bool operator==(const Pooled& a, const Pooled<U>& b) noexcept {
    return a.pool() == b.pool();
  }

 private:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  std::shared_ptr<RecordPool> pool_;
};

}  // namespace partita::detail
