// SPDX-License-Identifier: Apache-2.0
// How a dimension is cut into blocks: balanced, nested over several axes, on multiples of a unit; and the inverse.
#pragma once

#include "partita/base/axis_list.hpp"
#include "partita/base/shape.hpp"
#include "partita/partition/layout.hpp"

namespace partita {

/// Part i of `parts` of a range: the first size mod parts parts have one more element. Parts may be empty.
[[nodiscard]] constexpr Range balanced_part(Range whole, int parts, int i) noexcept {
  const index_t least = whole.size() / parts;
  const index_t larger = whole.size() % parts;
  const index_t begin = whole.begin + i * least + (i < larger ? i : larger);
  return {begin, begin + least + (i < larger ? 1 : 0)};
}

/// The part that holds `position`: the inverse of balanced_part; never an empty part. Pre: whole contains position.
[[nodiscard]] constexpr int balanced_part_of(Range whole, int parts, index_t position) noexcept {
  const index_t least = whole.size() / parts;
  const index_t larger = whole.size() % parts;
  const index_t offset = position - whole.begin;
  const index_t in_larger = larger * (least + 1);
  return static_cast<int>(offset < in_larger ? offset / (least + 1) : larger + (offset - in_larger) / least);
}

/// A dimension of `length` elements that may be cut only at multiples of `unit` (the last unit may be shorter).
struct Dimension {
  index_t length = 0;
  index_t unit = 1;

  [[nodiscard]] constexpr Range units() const noexcept { return {0, length / unit + (length % unit != 0 ? 1 : 0)}; }
  [[nodiscard]] constexpr Range elements(Range unit_range) const noexcept {
    // Whole units end within the length, so that no product leaves 64 bits.
    const index_t whole = length / unit;
    return {unit_range.begin <= whole ? unit_range.begin * unit : length,
            unit_range.end <= whole ? unit_range.end * unit : length};
  }

  friend constexpr bool operator==(const Dimension&, const Dimension&) = default;
};

/// The units that the rank at `coordinates` holds when `whole` is cut along `axes`: the first axis cuts the range, the
/// next cuts that block. Equal leading axes cut at equal places whatever follows.
[[nodiscard]] constexpr Range nested_units(Range whole, const AxisList& axes, const AxisValues& extents,
                                           const AxisValues& coordinates) noexcept {
  for (const int axis : axes) {
    const auto a = static_cast<unsigned>(axis);
    whole = balanced_part(whole, extents[a], coordinates[a]);
  }
  return whole;
}

/// The elements of a dimension that the rank at `coordinates` holds.
[[nodiscard]] constexpr Range nested_block(const Dimension& dimension, const AxisList& axes, const AxisValues& extents,
                                           const AxisValues& coordinates) noexcept {
  return dimension.elements(nested_units(dimension.units(), axes, extents, coordinates));
}

/// Who holds a position along some axes, and how far that block reaches.
struct Owner {
  Range block;             // elements
  AxisValues coordinates;  // only those along the axes asked for are set
};

/// The owner of element `position` when the units `whole` of a dimension are cut along `axes`: the inverse of
/// nested_units. Pre: the elements of `whole` contain position.
[[nodiscard]] constexpr Owner owner_of(const Dimension& dimension, Range whole, const AxisList& axes,
                                       const AxisValues& extents, index_t position) noexcept {
  Owner owner{{}, {}};
  const index_t unit = position / dimension.unit;
  for (const int axis : axes) {
    const auto a = static_cast<unsigned>(axis);
    const int part = balanced_part_of(whole, extents[a], unit);
    owner.coordinates[a] = part;
    whole = balanced_part(whole, extents[a], part);
  }
  owner.block = dimension.elements(whole);
  return owner;
}

/// Units of both dimensions of a matrix.
struct Units {
  index_t rows = 1;
  index_t cols = 1;

  [[nodiscard]] constexpr Units transposed() const noexcept { return {cols, rows}; }
  friend constexpr bool operator==(const Units&, const Units&) = default;
};

/// The rectangle that the rank at `coordinates` holds of a matrix laid out by `layout`.
[[nodiscard]] constexpr Block block_of(const Layout& layout, Shape shape, Units units, const AxisValues& extents,
                                       const AxisValues& coordinates) noexcept {
  return {nested_block({shape.rows, units.rows}, layout.rows, extents, coordinates),
          nested_block({shape.cols, units.cols}, layout.cols, extents, coordinates)};
}

}  // namespace partita
