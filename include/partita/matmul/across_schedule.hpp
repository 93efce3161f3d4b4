// SPDX-License-Identifier: Apache-2.0
// Products of operands that lie anywhere among C's ranks: where their panels come from, and which way moves least.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "partita/matmul/run.hpp"
#include "partita/redistribute/exchange.hpp"
#include "partita/schedule/count.hpp"

namespace partita {

/// Sizes of C[m,n] = A[m,k]·B[k,n], and how its matrices lie on the same ranks, each on a grid of its own. A and B
/// stand for op(A) and op(B).
struct AcrossGeometry {
  index_t m = 0;
  index_t n = 0;
  index_t k = 0;
  Placement a;
  Placement b;
  Placement c;
  /// See ProductGeometry.
  bool widened = false;
  index_t scratch_bytes = 8;
  bool prefers_cut_sums = false;

  [[nodiscard]] constexpr int ranks() const noexcept { return group_size(c.axes, c.extents); }
};

/// The steps of one rank whose part of C stays: for each k-panel, the exchanges that bring the rows of A and the
/// columns of B that its block of C needs, straight from where they lie, and their product. The panels of a whole
/// product move mk/R + kn/S elements to a rank of an R×S cut of C, less what the rank holds.
class AcrossSchedule {
 public:
  constexpr AcrossSchedule(const AcrossGeometry& geometry, int self, const MatmulOptions& options)
      : geometry_(geometry), self_(self), block_(geometry.c.block({geometry.m, geometry.n}, self)) {
    const index_t quarter = geometry.k / 4 + (geometry.k % 4 != 0 ? 1 : 0);
    width_ = options.panel_width.value_or(quarter > 512 ? quarter : 512);
    if (width_ > geometry.k) width_ = geometry.k;
    lookahead_ = options.lookahead.value_or(2);
    if (lookahead_ > most_panels_in_flight) lookahead_ = most_panels_in_flight;
    rows_of_c_ = {
        Layout{geometry.c.layout.rows, {}, {}}, geometry.c.axes, geometry.c.extents, {geometry.c.units.rows, 1}};
    cols_of_c_ = {
        Layout{{}, geometry.c.layout.cols, {}}, geometry.c.axes, geometry.c.extents, {1, geometry.c.units.cols}};
    if (geometry.m > 0 && geometry.n > 0 && geometry.k > 0) end_ = geometry.k;
  }

  [[nodiscard]] constexpr index_t panel_width() const noexcept { return width_; }
  [[nodiscard]] constexpr int lookahead() const noexcept { return lookahead_; }
  /// This rank's rectangle of C.
  [[nodiscard]] constexpr Block block() const noexcept { return block_; }

  /// What brings the part `k` of an operand to all ranks.
  [[nodiscard]] constexpr Exchange exchange(Operand operand, Range k) const {
    if (operand == Operand::a) {
      return {{geometry_.m, geometry_.k}, geometry_.a, rows_of_c_, self_, {{0, geometry_.m}, k}};
    }
    return {{geometry_.k, geometry_.n}, geometry_.b, cols_of_c_, self_, {k, {0, geometry_.n}}};
  }
  [[nodiscard]] constexpr Range panel(index_t number) const noexcept {
    const index_t begin = number * width_;
    return {begin, begin + width_ < end_ ? begin + width_ : end_};
  }

  [[nodiscard]] constexpr index_t panel_elements(Operand operand) const noexcept {
    return width_ * (operand == Operand::a ? block_.rows.size() : block_.cols.size());
  }
  [[nodiscard]] constexpr index_t workspace() const noexcept {
    return lookahead_ * (panel_elements(Operand::a) + panel_elements(Operand::b)) +
           (geometry_.widened ? block_.size() : 0);
  }

  /// Calls f(step) for each step, in the order in which they are executed.
  template <class F>
  constexpr void for_each(F&& f) const {
    index_t issued = 0;
    for (index_t number = 0; panel(number).begin < end_; ++number) {
      for (; issued < number + lookahead_ && panel(issued).begin < end_; ++issued) {
        for (const Operand operand : {Operand::a, Operand::b}) {
          exchange(operand, panel(issued)).for_each([&](Step step) {
            step.operand = operand;
            step.panel = issued;
            f(step);
          });
        }
      }
      Step step;
      step.panel = number;
      step.block = block_;
      step.k = panel(number);
      f(step);
    }
  }

 private:
  AcrossGeometry geometry_;
  int self_;
  Block block_;
  Placement rows_of_c_;  // of A: each rank the rows of its block of C
  Placement cols_of_c_;  // of B
  index_t width_ = 0;
  int lookahead_ = 0;
  index_t end_ = 0;
};

/// Both operands redistributed first, k cut over all ranks: then the product is local, and its sums are scattered as C
/// lies. Moves about (mk + kn + mn)/p elements: little where k is long.
struct SplitK {
  constexpr explicit SplitK(const AcrossGeometry& g) {
    a = {Layout{{}, g.c.axes, {}}, g.c.axes, g.c.extents, {g.c.units.rows, 1}};
    b = {Layout{g.c.axes, {}, {}}, g.c.axes, g.c.extents, {1, g.c.units.cols}};
    plan = plan_product(a.layout, b.layout, g.c.layout);
  }
  [[nodiscard]] constexpr ProductGeometry product(const AcrossGeometry& g, int rank) const {
    ProductGeometry geometry{g.m, g.n, g.k, a.units, b.units, g.c.extents, g.c.coordinates(rank)};
    geometry.widened = g.widened;
    geometry.scratch_bytes = g.scratch_bytes;
    geometry.prefers_cut_sums = g.prefers_cut_sums;
    return geometry;
  }
  [[nodiscard]] constexpr Exchange exchange_a(const AcrossGeometry& g, int rank) const {
    return {{g.m, g.k}, g.a, a, rank};
  }
  [[nodiscard]] constexpr Exchange exchange_b(const AcrossGeometry& g, int rank) const {
    return {{g.k, g.n}, g.b, b, rank};
  }
  /// Scratch elements of the rank that needs most.
  [[nodiscard]] constexpr index_t workspace(const AcrossGeometry& g) const {
    return a.block({g.m, g.k}, 0).size() + b.block({g.k, g.n}, 0).size() +
           ProductSchedule(plan, product(g, 0), MatmulOptions{}).workspace();
  }

  Placement a;
  Placement b;
  ProductPlan plan;
};

/// The scratch bytes of panels of a width, for the largest block of C, which is the first rank's.
[[nodiscard]] constexpr index_t across_bytes(const AcrossGeometry& g, MatmulOptions options, index_t width) {
  options.panel_width = width;
  return AcrossSchedule(g, 0, options).workspace() * g.scratch_bytes;
}

/// The options with the panels of an AcrossSchedule narrowed to the workspace that they allow; nothing where panels of
/// width 1 need more. Pre: check_options().
[[nodiscard]] constexpr std::optional<MatmulOptions> fit_across(const AcrossGeometry& g, MatmulOptions options) {
  const index_t widest = AcrossSchedule(g, 0, options).panel_width();
  if (across_bytes(g, options, widest > 1 ? widest : 1) <= options.workspace_bytes) return options;
  const index_t one = across_bytes(g, options, 1);
  if (one > options.workspace_bytes) return std::nullopt;
  const index_t each = across_bytes(g, options, 2) - one;  // the need grows by as much with every element of width
  options.panel_width = 1 + (each > 0 ? (options.workspace_bytes - one) / each : index_t{0});
  return options;
}

/// How a product across layouts is made: by the rule of the operands' own partitions, where it gives C; from panels
/// taken straight from where the operands lie; or with k cut over all ranks, after redistribution.
enum class Route { rule, panels, split_k };

[[nodiscard]] constexpr std::string_view name_of(Route route) noexcept {
  switch (route) {
    case Route::rule:
      return "rule";
    case Route::panels:
      return "panels";
    default:
      return "split k";
  }
}

/// Elements moved by each way, summed over ranks, or over 64 of them, evenly spaced, where there are more. The largest
/// number stands for a way that is not open: the rule does not give C, or the workspace allowed is too small.
struct RouteCosts {
  index_t rule = std::numeric_limits<index_t>::max();
  index_t panels = std::numeric_limits<index_t>::max();
  index_t split_k = std::numeric_limits<index_t>::max();

  [[nodiscard]] constexpr bool open() const noexcept {
    constexpr index_t closed = std::numeric_limits<index_t>::max();
    return rule != closed || panels != closed || split_k != closed;
  }
  /// The cheapest; among equals the earlier in the order of Route.
  [[nodiscard]] constexpr Route best() const noexcept {
    if (rule <= panels && rule <= split_k) return Route::rule;
    return panels <= split_k ? Route::panels : Route::split_k;
  }
};

/// `rule_elements(rank)` is what a rank moves by the rule of the operands' own partitions; nullptr where that does not
/// give C. Summed over all ranks, or over 64 of them, evenly spaced, where there are more: the same verdict on every
/// rank without traffic.
template <class Rule>
[[nodiscard]] constexpr RouteCosts route_costs(const AcrossGeometry& g, const MatmulOptions& options,
                                               [[maybe_unused]] const Rule& rule_elements) {
  constexpr bool has_rule = !std::is_same_v<Rule, std::nullptr_t>;
  RouteCosts costs;
  const SplitK split(g);
  const bool splits = split.plan.valid() && split.workspace(g) * g.scratch_bytes <= options.workspace_bytes;
  const bool by_panels = fit_across(g, options).has_value();
  if (by_panels) costs.panels = 0;
  if (splits) costs.split_k = 0;
  if (has_rule) costs.rule = 0;
  const int ranks = g.ranks();
  const int looked_at = ranks < 64 ? ranks : 64;
  for (int i = 0; i < looked_at; ++i) {
    const int rank = static_cast<int>(static_cast<index_t>(i) * ranks / looked_at);
    const AcrossSchedule panels(g, rank, options);
    const bool moves = by_panels && g.m > 0 && g.n > 0 && g.k > 0;
    for (const Operand operand : {Operand::a, Operand::b}) {
      if (moves) costs.panels += panels.exchange(operand, {0, g.k}).received().elements;
    }
    if (splits) {
      costs.split_k += split.exchange_a(g, rank).received().elements + split.exchange_b(g, rank).received().elements +
                       count_of(ProductSchedule(split.plan, split.product(g, rank), options)).elements;
    }
    if constexpr (has_rule) costs.rule += rule_elements(rank);
  }
  return costs;
}

}  // namespace partita
