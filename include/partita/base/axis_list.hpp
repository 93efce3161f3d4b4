// SPDX-License-Identifier: Apache-2.0
// Ordered lists of grid axes, as values: what the rule of multiplication computes with.
#pragma once

#include <array>
#include <stdexcept>

#include "partita/base/config.hpp"

namespace partita {

/// The most axes that a grid may have.
inline constexpr int max_axes = 8;

/// One int for each axis of a grid, by the axis's position in it: extents or coordinates.
using AxisValues = std::array<int, max_axes>;

/// An ordered list of axes, each given by its position in the grid; no axis occurs twice. A set of axes is such a list
/// in grid order.
class AxisList {
 public:
  constexpr AxisList() = default;
  template <class... Ints>
  explicit constexpr AxisList(int first, Ints... rest) {
    push_back(first);
    (push_back(rest), ...);
  }

  [[nodiscard]] constexpr int size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr int operator[](int i) const noexcept { return at_[static_cast<unsigned>(i)]; }
  [[nodiscard]] constexpr int back() const noexcept { return (*this)[size_ - 1]; }
  [[nodiscard]] constexpr const int* begin() const noexcept { return at_.data(); }
  [[nodiscard]] constexpr const int* end() const noexcept { return at_.data() + size_; }

  constexpr void push_back(int axis) {
    if (size_ == max_axes || axis < 0 || axis >= max_axes || contains(axis)) {
      throw std::logic_error("an axis list holds each of at most 8 axes once");
    }
    at_[static_cast<unsigned>(size_++)] = axis;
  }

  [[nodiscard]] constexpr bool contains(int axis) const noexcept {
    for (const int a : *this) {
      if (a == axis) return true;
    }
    return false;
  }
  [[nodiscard]] constexpr bool meets(const AxisList& other) const noexcept {
    for (const int a : *this) {
      if (other.contains(a)) return true;
    }
    return false;
  }
  /// The axes [from, to) of this list.
  [[nodiscard]] constexpr AxisList slice(int from, int to) const {
    AxisList out;
    for (int i = from; i < to; ++i) out.push_back((*this)[i]);
    return out;
  }
  [[nodiscard]] constexpr bool starts_with(const AxisList& prefix) const noexcept {
    if (prefix.size() > size_) return false;
    for (int i = 0; i < prefix.size(); ++i) {
      if ((*this)[i] != prefix[i]) return false;
    }
    return true;
  }
  /// This list without the axes of `other`, order kept.
  [[nodiscard]] constexpr AxisList without(const AxisList& other) const {
    AxisList out;
    for (const int a : *this) {
      if (!other.contains(a)) out.push_back(a);
    }
    return out;
  }
  /// The same axes in grid order.
  [[nodiscard]] constexpr AxisList sorted() const {
    AxisList out;
    for (int axis = 0; axis < max_axes; ++axis) {
      if (contains(axis)) out.push_back(axis);
    }
    return out;
  }
  [[nodiscard]] constexpr unsigned mask() const noexcept {
    unsigned bits = 0;
    for (const int a : *this) bits |= 1U << static_cast<unsigned>(a);
    return bits;
  }

  friend constexpr AxisList operator+(AxisList a, const AxisList& b) {
    for (const int axis : b) a.push_back(axis);
    return a;
  }
  friend constexpr bool operator==(const AxisList& a, const AxisList& b) noexcept {
    return a.size_ == b.size_ && a.starts_with(b);
  }

 private:
  std::array<int, max_axes> at_{};
  int size_ = 0;
};

[[nodiscard]] constexpr AxisList common_prefix(const AxisList& a, const AxisList& b) {
  AxisList out;
  for (int i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) out.push_back(a[i]);
  return out;
}

/// The number of ranks along all axes of the list.
[[nodiscard]] constexpr int group_size(const AxisList& axes, const AxisValues& extents) noexcept {
  int size = 1;
  for (const int a : axes) size *= extents[static_cast<unsigned>(a)];
  return size;
}

/// Position of `coordinates` among the ranks along `axes`, the first axis of the list outermost. With the axes in
/// grid order it is the rank in their sub-communicator; with the axes of a partition it is the number of the block.
[[nodiscard]] constexpr int index_along(const AxisList& axes, const AxisValues& extents,
                                        const AxisValues& coordinates) noexcept {
  int index = 0;
  for (const int a : axes) {
    index = index * extents[static_cast<unsigned>(a)] + coordinates[static_cast<unsigned>(a)];
  }
  return index;
}

/// The inverse of index_along: `base` with the coordinates along `axes` replaced.
[[nodiscard]] constexpr AxisValues coordinates_along(const AxisList& axes, const AxisValues& extents, int index,
                                                     AxisValues base = {}) noexcept {
  for (int i = axes.size() - 1; i >= 0; --i) {
    const auto a = static_cast<unsigned>(axes[i]);
    base[a] = index % extents[a];
    index /= extents[a];
  }
  return base;
}

}  // namespace partita
