// SPDX-License-Identifier: Apache-2.0
// Named grid axes and the grid as a type: axes with their extents, fixed or dynamic.
#pragma once

#include <concepts>
#include <string_view>

#include "partita/base/axis_list.hpp"

namespace partita {

/// An extent that is known at run time only.
inline constexpr int dynamic = -1;

/// A tag that names an axis: any type with a static `name`. Users declare their own the same way.
template <class A>
concept AxisTag = requires {
  { A::name } -> std::convertible_to<std::string_view>;
};

struct Row {
  static constexpr std::string_view name = "Row";
};
struct Col {
  static constexpr std::string_view name = "Col";
};
struct Depth {
  static constexpr std::string_view name = "Depth";
};
/// The one axis of a one-dimensional (tensor-parallel) grid.
struct Tp {
  static constexpr std::string_view name = "Tp";
};

/// An axis with its extent: the number of ranks along it, at least 1, or `dynamic` (Grid checks it).
template <AxisTag Tag, int Extent>
struct Axis {
  using tag = Tag;
  static constexpr int extent = Extent;
};

namespace detail {
template <class A, class... Tags>
constexpr int position_of() {
  int position = 0;
  const bool found = ((std::same_as<A, Tags> ? true : (++position, false)) || ...);
  return found ? position : -1;
}
template <class T, class... Tags>
inline constexpr int occurrences = (static_cast<int>(std::same_as<T, Tags>) + ... + 0);
template <class... Tags>
constexpr bool all_distinct() {
  return ((occurrences<Tags, Tags...> == 1) && ...);
}
}  // namespace detail

/// Ranks arranged along named axes, in row-major order: the last axis varies fastest. On Depth×Row×Col the world rank
/// of (k, r, c) is c + C·(r + R·k). A type only; make_grid() gives the ranks.
template <class... Axes>
struct Grid {
  static constexpr int axis_count = static_cast<int>(sizeof...(Axes));
  static constexpr int extents[] = {Axes::extent...};
  static constexpr std::string_view names[] = {Axes::tag::name...};
  /// True when no extent is dynamic.
  static constexpr bool fixed = ((Axes::extent != dynamic) && ...);

  template <class Tag>
  static constexpr int position = detail::position_of<Tag, typename Axes::tag...>();
  template <class Tag>
  static constexpr bool has = position<Tag> >= 0;

  // At the end, where all members are known: nothing that follows a refusal is refused for want of them.
  static_assert(sizeof...(Axes) >= 1 && sizeof...(Axes) <= max_axes, "a grid has 1 to 8 axes");
  static_assert(detail::all_distinct<typename Axes::tag...>(), "an axis occurs once in a grid");
  static_assert(((Axes::extent >= 1 || Axes::extent == dynamic) && ...),
                "an axis needs an extent of at least 1, or partita::dynamic");
};

namespace detail {

template <class Left, class Right>
struct MeetAxes;
template <class Tag, int X, int Y>
struct MeetAxes<Axis<Tag, X>, Axis<Tag, Y>> {
  static constexpr bool compatible = X == Y || X == dynamic || Y == dynamic;
  using type = Axis<Tag, X == dynamic ? Y : X>;
};

template <class Left, class Right>
struct MeetGrids {
  static constexpr bool compatible = false;
  using type = Left;
};
template <class... Tags, int... X, int... Y>
struct MeetGrids<Grid<Axis<Tags, X>...>, Grid<Axis<Tags, Y>...>> {
  static constexpr bool compatible = (MeetAxes<Axis<Tags, X>, Axis<Tags, Y>>::compatible && ...);
  using type = Grid<typename MeetAxes<Axis<Tags, X>, Axis<Tags, Y>>::type...>;
};

}  // namespace detail

/// Two grid types name the same axes and no fixed extents that differ.
template <class Left, class Right>
inline constexpr bool grids_meet = detail::MeetGrids<Left, Right>::compatible;

/// The grid of both: where fixed meets dynamic, fixed wins.
template <class Left, class Right>
using meet_grids_t = typename detail::MeetGrids<Left, Right>::type;

}  // namespace partita
