// SPDX-License-Identifier: Apache-2.0
// Random configurations of products, for the sweeps.
#pragma once

#include <cstdint>
#include <random>

#include "support/product_case.hpp"

namespace partita::test {

/// Random choices that are the same in every process.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  index_t between(index_t low, index_t high) {
    return low + static_cast<index_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

/// One of the results that the natural layout allows: each pending axis is all-reduced, scattered or kept.
inline Layout some_result(const Layout& natural, bool may_keep, Draw& draw) {
  Layout result{natural.rows, natural.cols, {}};
  for (const int axis : natural.partial) {
    const index_t choice = draw.between(0, may_keep ? 3 : 2);
    if (choice == 1) result.rows.push_back(axis);
    if (choice == 2) result.cols.push_back(axis);
    if (choice == 3) result.partial.push_back(axis);
  }
  return result;
}

/// A configuration of a pair of layouts. `transposes`: 2 where A is stored transposed, plus 1 where B is; `may_keep`:
/// whether a pending sum may be kept in the result.
inline ProductCase draw_case(const Layout& a, const Layout& b, int transposes, bool may_keep, Draw& draw) {
  ProductCase c;
  c.a = a;
  c.b = b;
  const auto size = [&] { return draw.chance(12) ? draw.between(0, 3) : draw.between(5, 19); };
  c.m = size();
  c.n = size();
  c.k = size();
  if (draw.chance(25)) {  // even sizes now and then, so that panels can move as slices
    c.m = 12 * draw.between(1, 2);
    c.n = 12 * draw.between(1, 2);
    c.k = 12 * draw.between(1, 2);
  } else if (draw.chance(20)) {
    const index_t k_unit = draw.between(1, 3);
    c.a_units = {draw.between(1, 4), k_unit};
    c.b_units = {k_unit, draw.between(1, 4)};
    if (common_prefix(a.cols, b.rows).empty()) c.b_units.rows = draw.between(1, 4);
  }
  c.a_transposed = (transposes & 2) != 0;
  c.b_transposed = (transposes & 1) != 0;
  c.conjugated = draw.chance(50);
  c.alpha = draw.chance(60) ? 1 : static_cast<int>(draw.between(-2, 3));
  c.beta = draw.chance(50) ? 0 : static_cast<int>(draw.between(-2, 2));
  c.ld_padding = draw.chance(30) ? draw.between(1, 5) : 0;
  const index_t width = draw.between(0, 7);
  if (width < 6) c.options.panel_width = 1 + width % 3;
  const auto lookahead = static_cast<int>(draw.between(0, 4));
  if (lookahead > 0) c.options.lookahead = lookahead;
  c.options.panels = draw.chance(25) ? PanelMove::all_gather : PanelMove::broadcast;
  c.seed = draw.bits() >> 8;
  if (c.seed % 6 < 3) c.options.sum_width = 1 + static_cast<index_t>(c.seed % 6);
  const Plan own = plan_of(a, b);
  c.plan = draw.chance(40) ? plan_product(a, b) : plan_product(a, b, some_result(own.natural, may_keep, draw));
  if (own.algorithm == Algorithm::stationary_a || own.algorithm == Algorithm::stationary_b) {
    if (draw.chance(25)) {  // the other side stays
      const Side side = own.algorithm == Algorithm::stationary_a ? Side::right : Side::left;
      const Plan other = detail::plan_staying(a, b, side);
      c.plan = plan_product(a, b, some_result(other.natural, may_keep, draw));
    }
  }
  return c;
}

}  // namespace partita::test
