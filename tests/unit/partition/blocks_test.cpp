// SPDX-License-Identifier: Apache-2.0
// Block arithmetic by brute force: parts tile the range, differ by one unit at most, nest, and are inverted by
// owner_of.
#include "partita/partition/blocks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace partita {
namespace {

TEST_CASE("balanced_part: parts tile the range, the larger ones first, and balanced_part_of finds them") {
  for (index_t begin : {0, 7}) {
    for (index_t n = 0; n <= 40; ++n) {
      for (int parts = 1; parts <= 12; ++parts) {
        const Range whole{begin, begin + n};
        index_t position = begin;
        for (int i = 0; i < parts; ++i) {
          const Range part = balanced_part(whole, parts, i);
          REQUIRE(part.begin == position);
          REQUIRE(part.size() == n / parts + (i < n % parts ? 1 : 0));
          for (index_t x = part.begin; x < part.end; ++x) REQUIRE(balanced_part_of(whole, parts, x) == i);
          position = part.end;
        }
        REQUIRE(position == whole.end);
      }
    }
  }
  static_assert(balanced_part({0, 10}, 4, 1) == Range{3, 6});
  // Sizes near the end of 64 bits, where a product of the size and the part would not fit.
  constexpr index_t huge = std::numeric_limits<index_t>::max() - 1;
  static_assert(balanced_part({0, huge}, 1024, 1023).end == huge);
  static_assert(balanced_part_of({0, huge}, 1024, huge - 1) == 1023);
}

TEST_CASE("Dimension: cuts fall on multiples of the unit, the last unit may be shorter") {
  for (index_t n = 0; n <= 30; ++n) {
    for (index_t unit = 1; unit <= 7; ++unit) {
      const Dimension d{n, unit};
      REQUIRE(d.units().size() == (n + unit - 1) / unit);
      REQUIRE(d.elements(d.units()) == Range{0, n});
      for (int parts = 1; parts <= 5; ++parts) {
        index_t position = 0;
        std::vector<index_t> counts;
        for (int i = 0; i < parts; ++i) {
          const Range units = balanced_part(d.units(), parts, i);
          const Range part = d.elements(units);
          REQUIRE(part.begin == position);
          REQUIRE((part.begin % unit == 0 || part.empty()));
          REQUIRE((part.end % unit == 0 || part.end == n));
          position = part.end;
          counts.push_back(units.size());
        }
        REQUIRE(position == n);
        REQUIRE(*std::max_element(counts.begin(), counts.end()) - *std::min_element(counts.begin(), counts.end()) <= 1);
      }
    }
  }
}

/// Every ordered list without repetition of the axes 0, 1, 2.
std::vector<AxisList> all_lists() {
  std::vector<AxisList> lists{AxisList{}};
  for (std::size_t next = 0; next < lists.size(); ++next) {
    for (int axis = 0; axis < 3; ++axis) {
      if (lists[next].contains(axis)) continue;
      AxisList longer = lists[next];
      longer.push_back(axis);
      lists.push_back(longer);
    }
  }
  return lists;
}

TEST_CASE("nested blocks tile the dimension, and owner_of is the inverse") {
  CHECK(all_lists().size() == 16);
  for (const AxisValues& extents : {AxisValues{2, 3, 2}, AxisValues{1, 2, 4}, AxisValues{3, 1, 2}}) {
    for (const AxisList& axes : all_lists()) {
      for (const Dimension d : {Dimension{0, 1}, Dimension{1, 1}, Dimension{5, 1}, Dimension{12, 1}, Dimension{23, 1},
                                Dimension{23, 2}, Dimension{31, 4}}) {
        std::vector<int> seen(static_cast<std::size_t>(d.length));
        index_t position = 0;
        for (int i = 0; i < group_size(axes, extents); ++i) {  // in the order of the list, blocks follow one another
          const AxisValues at = coordinates_along(axes, extents, i);
          REQUIRE(index_along(axes, extents, at) == i);
          const Range block = nested_block(d, axes, extents, at);
          REQUIRE(block.begin == position);
          position = block.end;
          for (index_t x = block.begin; x < block.end; ++x) {
            ++seen[static_cast<std::size_t>(x)];
            const Owner owner = owner_of(d, d.units(), axes, extents, x);
            REQUIRE(owner.block == block);
            for (const int a : axes) {
              REQUIRE(owner.coordinates[static_cast<std::size_t>(a)] == at[static_cast<std::size_t>(a)]);
            }
          }
        }
        REQUIRE(position == d.length);
        REQUIRE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("equal leading axes cut at equal places, whatever follows") {
  const AxisValues extents{2, 3, 4};
  for (const AxisList& longer : all_lists()) {
    for (int kept = 0; kept <= longer.size(); ++kept) {
      const AxisList shorter = longer.slice(0, kept);
      for (const Dimension d : {Dimension{29, 1}, Dimension{7, 1}, Dimension{40, 3}}) {
        for (int i = 0; i < group_size(AxisList{0, 1, 2}, extents); ++i) {
          const AxisValues at = coordinates_along(AxisList{0, 1, 2}, extents, i);
          const Range outer = nested_block(d, shorter, extents, at);
          const Range inner = nested_block(d, longer, extents, at);
          REQUIRE(outer.begin <= inner.begin);
          REQUIRE(inner.end <= outer.end);
          // The blocks of the further axes fill the outer block.
          AxisValues first = at, last = at;
          for (const int a : longer.slice(kept, longer.size())) {
            first[static_cast<std::size_t>(a)] = 0;
            last[static_cast<std::size_t>(a)] = extents[static_cast<std::size_t>(a)] - 1;
          }
          REQUIRE(nested_block(d, longer, extents, first).begin == outer.begin);
          REQUIRE(nested_block(d, longer, extents, last).end == outer.end);
        }
      }
    }
  }
  // Nested, not flat: 5 over 2 then 2 is (2+1)+(1+1); a flat cut in four would be 2, 1, 1, 1 with other borders.
  static_assert(nested_block({5, 1}, AxisList{0, 1}, {2, 2}, {1, 0}) == Range{3, 4});
  static_assert(nested_block({6, 1}, AxisList{0, 1}, {2, 2}, {1, 0}) == Range{3, 5});
}

TEST_CASE("block_of: the rectangle of a layout") {
  const Layout layout{AxisList{0, 1}, AxisList{2}, {}};
  const AxisValues extents{2, 2, 3};
  static_assert(Units{2, 5}.transposed() == Units{5, 2});
  CHECK(block_of(layout, {7, 8}, {}, extents, {0, 1, 2}) == Block{{2, 4}, {6, 8}});
  CHECK(block_of(layout, {7, 8}, {2, 4}, extents, {1, 0, 0}) == Block{{4, 6}, {0, 4}});
  CHECK(block_of(layout.transposed(), {8, 7}, {}, extents, {0, 1, 2}) == Block{{6, 8}, {2, 4}});
  CHECK(block_of(Layout{}, {7, 8}, {}, extents, {1, 1, 1}) == Block{{0, 7}, {0, 8}});
}

}  // namespace
}  // namespace partita
