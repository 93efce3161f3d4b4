// SPDX-License-Identifier: Apache-2.0
// The policies that are measured: pairs of partitions with a result, and the grids on which they stand. This list is
// the one place to add another.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"
#include "partita/schedule/count.hpp"
#include "problem.hpp"

namespace bench {

/// Partitions of op(A), of op(B) and of C.
template <class Left, class Right, class Result>
struct Pair {
  using left = Left;
  using right = Right;
  using result = Result;
};

namespace pairs {
using namespace partita;
using Rectangle = Summa2D<>;
using Layers = Grid25D<>;

/// k is cut; sums are scattered over the rows of C.
using Inner = Pair<ColumnShard<>, RowShard<>, RowShard<>>;
/// m is cut: B moves. n is cut: A moves.
using Rows = Pair<RowShard<>, RowShard<>, RowShard<>>;
using Columns = Pair<ColumnShard<>, ColumnShard<>, ColumnShard<>>;
/// A moves in rows, as a gathered activation does.
using Gathered = Pair<RowShard<>, ColumnShard<>, ColumnShard<>>;
using StationaryC = Pair<Rectangle, Rectangle, Rectangle>;
using StationaryA = Pair<Rectangle, transposed_t<Rectangle>, Rectangle>;
using StationaryB = Pair<transposed_t<Rectangle>, Rectangle, Rectangle>;
/// m, n and k are cut over Row, Col and Depth; sums are scattered over the rows or the columns of C. On grids with
/// Col 1 or Row 1 these are the pairs for a thin B or a thin A.
using SplitKRows = Pair<SplitKLeft<>, SplitKRight<>, Partition<Layers, RowsOver<Row, Depth>, ColsOver<Col>>>;
using SplitKColumns = Pair<SplitKLeft<>, SplitKRight<>, Partition<Layers, RowsOver<Row>, ColsOver<Col, Depth>>>;

// More than one copy of something.
using ReplicatedLeft = Pair<Replicated<>, ColumnShard<>, ColumnShard<>>;
using ReplicatedRight = Pair<RowShard<>, Replicated<>, RowShard<>>;
using InnerReduced = Pair<ColumnShard<>, RowShard<>, Replicated<>>;
using WeightsInLayers = Pair<Summa25D<>, Summa25DWeight<>, Summa25D<>>;
using SplitKReduced = Pair<SplitKLeft<>, SplitKRight<>, Summa25DWeight<>>;
}  // namespace pairs

using AnyPair =
    std::variant<pairs::Inner, pairs::Rows, pairs::Columns, pairs::Gathered, pairs::StationaryC, pairs::StationaryA,
                 pairs::StationaryB, pairs::SplitKRows, pairs::SplitKColumns, pairs::ReplicatedLeft,
                 pairs::ReplicatedRight, pairs::InnerReduced, pairs::WeightsInLayers, pairs::SplitKReduced>;

enum class GridKind { line, rectangle, layers };

/// A pair of partitions on grids of any extents.
struct Family {
  std::string_view name;
  AnyPair pair;
  GridKind grid;
  bool one_copy;  // of A, B and C: the layouts that compete, and that the lower bound speaks of
};

inline const Family families[] = {
    {"inner", pairs::Inner{}, GridKind::line, true},
    {"rows", pairs::Rows{}, GridKind::line, true},
    {"columns", pairs::Columns{}, GridKind::line, true},
    {"gathered", pairs::Gathered{}, GridKind::line, true},
    {"summa2d", pairs::StationaryC{}, GridKind::rectangle, true},
    {"summa2d_a", pairs::StationaryA{}, GridKind::rectangle, true},
    {"summa2d_b", pairs::StationaryB{}, GridKind::rectangle, true},
    {"splitk_rows", pairs::SplitKRows{}, GridKind::layers, true},
    {"splitk_cols", pairs::SplitKColumns{}, GridKind::layers, true},
    {"replicated_a", pairs::ReplicatedLeft{}, GridKind::line, false},
    {"replicated_b", pairs::ReplicatedRight{}, GridKind::line, false},
    {"inner_reduced", pairs::InnerReduced{}, GridKind::line, false},
    {"summa25d", pairs::WeightsInLayers{}, GridKind::layers, false},
    {"splitk_reduced", pairs::SplitKReduced{}, GridKind::layers, false},
};

/// A family on one grid.
struct Policy {
  const Family* family;
  std::vector<int> extents;

  /// "summa2d<2,2>"; extents in grid order: Depth, Row, Col.
  [[nodiscard]] std::string name() const {
    std::string text(family->name);
    for (std::size_t i = 0; i < extents.size(); ++i) text += (i == 0 ? "<" : ",") + std::to_string(extents[i]);
    return text + ">";
  }
};

/// Pre: there is such a family.
[[nodiscard]] inline Policy make_policy(std::string_view name, std::vector<int> extents) {
  const auto found = std::find_if(std::begin(families), std::end(families),
                                  [name](const Family& family) { return family.name == name; });
  return {found, std::move(extents)};
}

/// All families on all grids of so many ranks, one-copy layouts only unless all are asked for. Grids that only repeat a
/// smaller one are left out: rectangles of one row, layers of one layer or of one rank.
[[nodiscard]] inline std::vector<Policy> policies_for(int ranks, bool all = false) {
  std::vector<Policy> found;
  for (const Family& family : families) {
    if (!family.one_copy && !all) continue;
    if (family.grid == GridKind::line) {
      found.push_back({&family, {ranks}});
      continue;
    }
    for (int d = 1; d <= ranks; ++d) {
      for (int r = 1; r <= ranks; ++r) {
        if (ranks % (d * r) != 0) continue;
        const int c = ranks / (d * r);
        if (family.grid == GridKind::rectangle && d == 1 && r > 1 && c > 1) found.push_back({&family, {r, c}});
        if (family.grid == GridKind::layers && d > 1 && r * c > 1) found.push_back({&family, {d, r, c}});
      }
    }
  }
  return found;
}

/// The price of a product for one rank, from its schedule.
[[nodiscard]] inline partita::Count count_of_rank(const Policy& policy, const Problem& problem, int rank,
                                                  const partita::MatmulOptions& options = {}) {
  return std::visit(
      [&]<class L, class R, class C>(const Pair<L, R, C>&) {
        partita::ProductGeometry geometry{.m = problem.m, .n = problem.n, .k = problem.k, .a_units = {}, .b_units = {}};
        partita::AxisList axes;
        for (std::size_t a = 0; a < policy.extents.size(); ++a) {
          geometry.extents[a] = policy.extents[a];
          axes.push_back(static_cast<int>(a));
        }
        geometry.coordinates = partita::coordinates_along(axes, geometry.extents, rank);
        return partita::count_of(partita::detail::rule_for<L, R, C>::schedule(geometry, options));
      },
      policy.family->pair);
}

/// The most elements that a rank moves.
[[nodiscard]] inline index_t elements_moved(const Policy& policy, const Problem& problem, int ranks) {
  index_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    most = std::max(most, count_of_rank(policy, problem, rank).elements);
  }
  return most;
}

/// The one-copy policies that are worth a try: of those that move least, up to `most`.
[[nodiscard]] inline std::vector<Policy> candidates(const Problem& problem, int ranks, std::size_t most) {
  std::vector<std::pair<index_t, Policy>> priced;
  for (Policy& policy : policies_for(ranks)) {
    const index_t moved = elements_moved(policy, problem, ranks);
    priced.emplace_back(moved, std::move(policy));
  }
  std::stable_sort(priced.begin(), priced.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Policy> found;
  for (auto& [moved, policy] : priced) {
    if (found.size() < most) found.push_back(std::move(policy));
  }
  return found;
}

/// These, and the layouts that move one whole operand: on one machine, where that costs little, the fewest and largest
/// local products may be worth more.
[[nodiscard]] inline std::vector<Policy> contenders(const Problem& problem, int ranks, std::size_t most) {
  std::vector<Policy> found = candidates(problem, ranks, most);
  for (const std::string_view name : {"rows", "columns"}) {
    const bool there =
        std::any_of(found.begin(), found.end(), [name](const Policy& p) { return p.family->name == name; });
    if (!there) found.push_back(make_policy(name, {ranks}));
  }
  return found;
}

}  // namespace bench
