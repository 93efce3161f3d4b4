// SPDX-License-Identifier: Apache-2.0
// The partition as a type: which grid axes cut the rows, which the columns, and over which a sum is pending.
#pragma once

#include <utility>

#include "partita/grid/axis.hpp"
#include "partita/partition/layout.hpp"

namespace partita {

template <class... Tags>
struct RowsOver {};
template <class... Tags>
struct ColsOver {};
/// A set, written in grid order.
template <class... Tags>
struct PartialOver {};

namespace detail {

template <class G, class... Tags>
constexpr AxisList positions() {
  AxisList list;
  ((G::template has<Tags> && !list.contains(G::template position<Tags>) ? list.push_back(G::template position<Tags>)
                                                                        : void()),
   ...);
  return list;
}

template <class G, class... Tags>
inline constexpr bool axes_of_grid = (G::template has<Tags> && ...);
template <class... Tags>
inline constexpr bool distinct_tags = ((occurrences<Tags, Tags...> == 1) && ...);

template <class G, class Rows, class Cols, class Partial>
struct PartitionLayout;
template <class G, class... R, class... C, class... S>
struct PartitionLayout<G, RowsOver<R...>, ColsOver<C...>, PartialOver<S...>> {
  // Axes that are refused below are left out, so that no second error follows.
  static constexpr Layout value{positions<G, R...>(), positions<G, C...>(), positions<G, S...>()};
  static_assert(axes_of_grid<G, R..., C..., S...>, "a partition names only axes of its grid");
  static_assert(distinct_tags<R..., C..., S...>, "a partition names an axis once");
  static_assert(value.partial == value.partial.sorted(), "PartialOver is a set: name its axes in grid order");
};

}  // namespace detail

/// How a matrix lies on a grid. Axes over the rows, or over the columns, cut in the order in which they stand; an axis
/// that is named nowhere replicates. With axes in PartialOver, the matrix is the sum of what the ranks along them hold.
template <class G, class Rows = RowsOver<>, class Cols = ColsOver<>, class Partial = PartialOver<>>
struct Partition {
  using grid_type = G;
  using rows_over = Rows;
  using cols_over = Cols;
  using partial_over = Partial;
  static constexpr Layout layout = detail::PartitionLayout<G, Rows, Cols, Partial>::value;
};

template <class P>
inline constexpr bool is_partition_v = false;
template <class G, class R, class C, class S>
inline constexpr bool is_partition_v<Partition<G, R, C, S>> = true;

namespace detail {

template <class G, int Position>
struct TagAt;
template <class First, class... Rest, int Position>
struct TagAt<Grid<First, Rest...>, Position> : TagAt<Grid<Rest...>, Position - 1> {};
template <class First, class... Rest>
struct TagAt<Grid<First, Rest...>, 0> {
  using type = typename First::tag;
};

/// The partition of grid G whose layout is `Wanted::value`.
template <class G, class Wanted>
struct PartitionOf {
  static constexpr Layout layout = Wanted::value;

  static constexpr AxisList lists[] = {layout.rows, layout.cols, layout.partial};

  template <template <class...> class Over, int Which, int... I>
  static auto list(std::integer_sequence<int, I...>) -> Over<typename TagAt<G, lists[Which][I]>::type...>;

  using type = Partition<G, decltype(list<RowsOver, 0>(std::make_integer_sequence<int, layout.rows.size()>{})),
                         decltype(list<ColsOver, 1>(std::make_integer_sequence<int, layout.cols.size()>{})),
                         decltype(list<PartialOver, 2>(std::make_integer_sequence<int, layout.partial.size()>{}))>;
};

template <class P>
struct Transpose;
template <class G, class... R, class... C, class S>
struct Transpose<Partition<G, RowsOver<R...>, ColsOver<C...>, S>> {
  using type = Partition<G, RowsOver<C...>, ColsOver<R...>, S>;
};

template <class P, class G>
struct OnGrid;
template <class P, class R, class C, class S, class G>
struct OnGrid<Partition<P, R, C, S>, G> {
  using type = Partition<G, R, C, S>;
};

}  // namespace detail

/// The partition of the transposed matrix: rows and columns exchanged.
template <class P>
using transposed_t = typename detail::Transpose<P>::type;

/// The same lists over another grid with the same axes.
template <class P, class G>
using on_grid_t = typename detail::OnGrid<P, G>::type;

}  // namespace partita
