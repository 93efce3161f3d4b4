// SPDX-License-Identifier: Apache-2.0
// The one rule of multiplication, over lists of axis positions: from two layouts to algorithm, movement and result.
#pragma once

#include "partita/partition/layout.hpp"

namespace partita {

enum class Algorithm { local, stationary_c, stationary_a, stationary_b, refused };
enum class Side { none, left, right };
enum class Refusal { none, pending_left, pending_right, clash_and_extra, result_unreachable };

/// What two layouts mean for C[m,n] = A[m,k]·B[k,n]. Found in a constant expression or at run time; the class template
/// MatmulRule, `explain`, the executor and the tests all read this one value.
///
///   common      longest common prefix of the axes over A's columns and B's rows (after slicing the longer list)
///   extra       what remains of either, clash: axes over A's rows and over B's columns
///   no extra, no clash   local
///   extra, no clash      stationary C: k is swept, A comes in along its extra axes, B along its own
///   clash, no extra      stationary A: n is swept, B comes in along S (its column axes from the first clash on) and C
///                        goes out along the last axis of common; or stationary B, the mirror, with m swept
///   clash and extra      refused; gathering the moving operand along S makes it valid
struct Plan {
  Algorithm algorithm = Algorithm::refused;
  Refusal refusal = Refusal::none;
  Side sliced = Side::none;  // the operand of which each rank uses a part of its block only
  Layout left;               // after slicing
  Layout right;
  AxisList common;
  AxisList incoming_a;  // panels of A are broadcast along these, in the order in which they cut
  AxisList incoming_b;
  AxisList kept;      // the axes that cut the swept dimension and stay: common, or P of the moving operand
  AxisList outgoing;  // partial products are reduced along these: none or the last axis of common
  Layout natural;     // of the result, with its pending sums
  // Where refused: the operand that an all-gather must change, and into what.
  Side remedy_side = Side::none;
  Layout remedy;

  [[nodiscard]] constexpr bool valid() const noexcept { return algorithm != Algorithm::refused; }
};

/// How the pending sums of a natural result are finished. First each scatter in order, then the all-reduce.
struct Finish {
  AxisList scatter_rows;  // reduce-scattered, and appended to the axes over the rows
  AxisList scatter_cols;  // likewise over the columns
  AxisList all_reduce;    // in grid order
  [[nodiscard]] constexpr bool empty() const noexcept {
    return scatter_rows.empty() && scatter_cols.empty() && all_reduce.empty();
  }
};

/// A plan together with the result that is asked of it.
struct ProductPlan {
  Plan plan;
  Finish finish;
  Layout result;
  [[nodiscard]] constexpr bool valid() const noexcept { return plan.valid(); }
};

namespace detail {

/// The leading axes of `moving` before the first one that `fixed` names too.
constexpr AxisList before_clash(const AxisList& moving, const AxisList& fixed) {
  int first = 0;
  while (first < moving.size() && !fixed.contains(moving[first])) ++first;
  return moving.slice(0, first);
}

/// Whether A is the better one to stay where axes clash: its sum can then be finished inside the clash's own groups.
constexpr bool left_stays(const Layout& a, const Layout& b, const AxisList& common) noexcept {
  if (common.empty()) return false;
  for (const int axis : a.rows) {
    if (b.cols.contains(axis) && axis > common.back()) return false;
  }
  return true;
}

constexpr Plan refuse(Plan plan, Refusal why, Side side, const Layout& remedy) {
  plan.algorithm = Algorithm::refused;
  plan.refusal = why;
  plan.remedy_side = side;
  plan.remedy = remedy;
  return plan;
}

constexpr Plan stay(Plan plan, Side side) {
  const AxisList& common = plan.common;
  const bool left = side == Side::left;
  plan.algorithm = left ? Algorithm::stationary_a : Algorithm::stationary_b;
  const AxisList& moving = left ? plan.right.cols : plan.left.rows;
  plan.kept = before_clash(moving, left ? plan.left.rows : plan.right.cols);
  (left ? plan.incoming_b : plan.incoming_a) = moving.without(plan.kept);
  if (!common.empty()) plan.outgoing = AxisList{common.back()};
  const AxisList landed = plan.kept + plan.outgoing;
  plan.natural = left ? Layout{plan.left.rows, landed, {}} : Layout{landed, plan.right.cols, {}};
  plan.natural.partial = common.without(plan.outgoing).sorted();
  return plan;
}

/// The rule with the choice of who stays, where axes clash, left to the caller (Side::none: the rule's own choice).
constexpr Plan plan_staying(const Layout& a, const Layout& b, Side stays) {
  Plan plan;
  plan.left = a;
  plan.right = b;
  if (!a.partial.empty()) return refuse(plan, Refusal::pending_left, Side::left, {a.rows, a.cols, {}});
  if (!b.partial.empty()) return refuse(plan, Refusal::pending_right, Side::right, {b.rows, b.cols, {}});

  AxisList common = common_prefix(a.cols, b.rows);
  AxisList extra_a = a.cols.slice(common.size(), a.cols.size());
  AxisList extra_b = b.rows.slice(common.size(), b.rows.size());
  if (extra_b.empty() && !extra_a.empty() && !b.names_any(extra_a)) {
    plan.sliced = Side::right;
    common = plan.right.rows = a.cols;
    extra_a = {};
  } else if (extra_a.empty() && !extra_b.empty() && !a.names_any(extra_b)) {
    plan.sliced = Side::left;
    common = plan.left.cols = b.rows;
    extra_b = {};
  }
  plan.common = common;

  const bool extra = !extra_a.empty() || !extra_b.empty();
  const bool clash = a.rows.meets(b.cols);
  if (!clash) {
    plan.algorithm = extra ? Algorithm::stationary_c : Algorithm::local;
    plan.incoming_a = extra_a;
    plan.incoming_b = extra_b;
    plan.kept = common;
    plan.natural = {a.rows, b.cols, common.sorted()};
    return plan;
  }
  if (stays == Side::none) stays = left_stays(a, b, common) ? Side::left : Side::right;
  if (extra) {
    if (stays == Side::left) {
      return refuse(plan, Refusal::clash_and_extra, Side::right, {b.rows, before_clash(b.cols, a.rows), {}});
    }
    return refuse(plan, Refusal::clash_and_extra, Side::left, {before_clash(a.rows, b.cols), a.cols, {}});
  }
  return stay(plan, stays);
}

/// Whether `result` is `natural` with its pending sums finished in some way, and how.
constexpr bool finishes(const Layout& natural, const Layout& result, Finish& finish) {
  if (!result.rows.starts_with(natural.rows) || !result.cols.starts_with(natural.cols)) return false;
  finish.scatter_rows = result.rows.slice(natural.rows.size(), result.rows.size());
  finish.scatter_cols = result.cols.slice(natural.cols.size(), result.cols.size());
  const AxisList scattered = finish.scatter_rows + finish.scatter_cols;
  for (const AxisList& axes : {scattered, result.partial}) {
    for (const int axis : axes) {
      if (!natural.partial.contains(axis)) return false;
    }
  }
  finish.all_reduce = natural.partial.without(scattered + result.partial);
  return true;
}

}  // namespace detail

/// The rule's own choice for two layouts on one grid.
[[nodiscard]] constexpr Plan plan_of(const Layout& a, const Layout& b) {
  return detail::plan_staying(a, b, Side::none);
}

/// The product when no result is asked for: every pending sum is all-reduced.
[[nodiscard]] constexpr ProductPlan plan_product(const Layout& a, const Layout& b) {
  ProductPlan product;
  product.plan = plan_of(a, b);
  product.finish.all_reduce = product.plan.natural.partial;
  product.result = {product.plan.natural.rows, product.plan.natural.cols, {}};
  return product;
}

/// The product when `result` is asked for: the side stays whose natural result can be finished into it. What no side
/// yields is refused, and the remedy is what plan_product gives.
[[nodiscard]] constexpr ProductPlan plan_product(const Layout& a, const Layout& b, const Layout& result) {
  ProductPlan product;
  product.result = result;
  const Plan own = plan_of(a, b);
  for (const Side side : {Side::none, Side::left, Side::right}) {
    product.plan = side == Side::none ? own : detail::plan_staying(a, b, side);
    if (!product.plan.valid()) return product;
    if (detail::finishes(product.plan.natural, result, product.finish)) return product;
    if (own.algorithm == Algorithm::local || own.algorithm == Algorithm::stationary_c) break;
  }
  product.plan = detail::refuse(own, Refusal::result_unreachable, Side::none, plan_product(a, b).result);
  product.finish = {};
  return product;
}

}  // namespace partita
