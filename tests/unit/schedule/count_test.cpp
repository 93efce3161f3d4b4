// SPDX-License-Identifier: Apache-2.0
// The count of a schedule against figures made by hand, for each row of the multiplication table.
#include "partita/schedule/count.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "partita/matmul/schedule.hpp"
#include "support/layouts.hpp"

namespace partita::test {
namespace {

constexpr ProductGeometry geometry(index_t m, index_t n, index_t k, AxisValues extents, AxisValues at) {
  return {m, n, k, {}, {}, extents, at, false};
}

constexpr Count count(const ProductPlan& plan, const ProductGeometry& g, const MatmulOptions& options = {}) {
  return count_of(ProductSchedule(plan, g, options));
}

constexpr const TableRow& row(std::size_t i) { return table_rows[i]; }

/// Elements that every rank moves; -1 where ranks differ.
constexpr index_t moved_by_each(const ProductPlan& plan, index_t m, index_t n, index_t k, AxisValues extents, int axes,
                                const MatmulOptions& options = {}) {
  AxisList all;
  for (int a = 0; a < axes; ++a) all.push_back(a);
  index_t first = -2;
  for (int rank = 0; rank < group_size(all, extents); ++rank) {
    const index_t moved =
        count(plan, geometry(m, n, k, extents, coordinates_along(all, extents, rank)), options).elements;
    if (first == -2) first = moved;
    if (moved != first) return -1;
  }
  return first;
}

TEST_CASE("one dimension, P = 4, m 8, n 12, k 16: what each rank moves") {
  constexpr index_t m = 8, n = 12, k = 16;
  constexpr AxisValues p{4};
  const auto moved = [&](std::size_t i) { return moved_by_each(plan_product(row(i).a, row(i).b), m, n, k, p, 1); };
  CHECK(moved(0) == 0);                  // Replicated x ColumnShard: nothing
  CHECK(moved(1) == 2 * 3 * m * n / 4);  // ColumnShard x RowShard: all_reduce, 2 (P-1)/P |C|
  CHECK(moved(2) == 3 * m * k / 4);      // RowShard x ColumnShard: A gathered, (P-1)/P |A|
  CHECK(moved(3) == 0);                  // RowShard x Replicated: nothing
  CHECK(moved(4) == 2 * 3 * m * n / 4);  // transposed(RowShard) x RowShard: the gradient's all_reduce
  // The sequence-parallel end of row 1: reduce_scatter moves half of the all_reduce.
  const auto scattered = plan_product(row(1).a, row(1).b, Layout{AxisList{0}, {}, {}});
  CHECK(moved_by_each(scattered, m, n, k, p, 1) == 3 * m * n / 4);
  const auto kept = plan_product(row(1).a, row(1).b, Layout{{}, {}, AxisList{0}});
  CHECK(moved_by_each(kept, m, n, k, p, 1) == 0);
}

TEST_CASE("two dimensions, q = 4: (q-1)(|X| + |Y|)/q² for the two matrices that move") {
  constexpr index_t m = 8, n = 12, k = 16, a = m * k, b = k * n, c = m * n;
  constexpr AxisValues q{4, 4};
  const auto moved = [&](std::size_t i, const MatmulOptions& options = {}) {
    return moved_by_each(plan_product(row(i).a, row(i).b), m, n, k, q, 2, options);
  };
  for (const index_t width : {1, 2, 3, 512}) {
    MatmulOptions options{.panel_width = width};
    CHECK(moved(5, options) == 3 * (a + b) / 16);  // AB
    CHECK(moved(6, options) == 3 * (b + c) / 16);  // A·Bᵀ: B and C move
    CHECK(moved(7, options) == 3 * (a + c) / 16);  // Aᵀ·B: A and C move
    options.panels = PanelMove::all_gather;        // the same volume
    CHECK(moved(5, options) == 3 * (a + b) / 16);
    CHECK(moved(6, options) == 3 * (b + c) / 16);
    CHECK(moved(7, options) == 3 * (a + c) / 16);
  }
  // Messages: one for each panel that comes from elsewhere, 3 of A and 3 of B; panels of half a block double them.
  const auto plan = plan_product(row(5).a, row(5).b);
  CHECK(count(plan, geometry(m, n, k, q, {1, 2})).messages == 2 * 3);
  CHECK(count(plan, geometry(m, n, k, q, {1, 2}), {.panel_width = 2}).messages == 2 * 3 * 2);
  CHECK(count(plan, geometry(m, n, k, q, {1, 2})).flops == 2 * m * n * k / 16);
}

TEST_CASE("widths left open: whole blocks where panels are read in place, pipelined copies elsewhere") {
  constexpr index_t n = 4096;
  constexpr AxisValues q{2, 2};
  const auto plan = plan_product(row(5).a, row(5).b);
  ProductGeometry g = geometry(n, n, n, q, {1, 0});
  const index_t elements = n * n / 2;
  CHECK(count(plan, g) == Count{8, elements, n * n * n / 2, 2 * 2 * 512 * n / 2});
  g.panels_in_place = true;
  CHECK(count(plan, g) == Count{2, elements, n * n * n / 2, 0});
  // What is asked for holds, in place too; partial products keep narrow buffers.
  CHECK(count(plan, g, {.panel_width = 512}).messages == 8);
  const auto reduced = plan_product(row(6).a, row(6).b);
  CHECK(count(reduced, g).workspace == 2 * 512 * n / 2);
  // Slices are copied, read in place or not.
  CHECK(count(plan, g, {.panels = PanelMove::all_gather}).workspace == 2 * 2 * 512 * n / 2);
}

TEST_CASE("moves left open: slices where the communicator prefers them and blocks are even") {
  constexpr AxisValues q{2, 2};
  const auto plan = plan_product(row(5).a, row(5).b);
  const auto moves = [&](index_t k, const MatmulOptions& options) {
    ProductGeometry g = geometry(8, 8, k, q, {1, 0});
    g.prefers_all_gather = true;
    bool slices = false;
    bool broadcasts = false;
    ProductSchedule(plan, g, options).for_each([&](const Step& step) {
      slices = slices || step.kind == StepKind::all_gather;
      broadcasts = broadcasts || step.kind == StepKind::broadcast;
    });
    CHECK(slices != broadcasts);
    return slices ? PanelMove::all_gather : PanelMove::broadcast;
  };
  CHECK(moves(8, {}) == PanelMove::all_gather);
  CHECK(moves(7, {}) == PanelMove::broadcast);
  CHECK(moves(8, {.panels = PanelMove::broadcast}) == PanelMove::broadcast);
}

TEST_CASE("sums in parts: each follows its panel of the result, and together they move what one sum does") {
  constexpr AxisValues p{4};
  const TableRow& pair = row(1);  // ColumnShard x RowShard
  struct Case {
    const char* name;
    Layout result;
    StepKind kind;
    bool over_rows;  // what the panels cut
    index_t elements;
  };
  constexpr index_t m = 24, n = 16, k = 8;
  for (const Case& c :
       {Case{"all_reduce", {}, StepKind::all_reduce, true, 2 * 3 * m * n / 4},
        Case{"rows scattered", {AxisList{0}, {}, {}}, StepKind::reduce_scatter, false, 3 * m * n / 4},
        Case{"columns scattered", {{}, AxisList{0}, {}}, StepKind::reduce_scatter, true, 3 * m * n / 4}}) {
    CAPTURE(c.name);
    const auto plan = plan_product(pair.a, pair.b, c.result);
    const ProductSchedule schedule(plan, geometry(m, n, k, p, {1}), {.sum_width = 10});
    const index_t extent = c.over_rows ? m : n;
    std::vector<Step> steps;
    schedule.for_each([&](const Step& step) { steps.push_back(step); });
    const auto panels = static_cast<std::size_t>((extent + 9) / 10);
    REQUIRE(steps.size() == 2 * panels);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto begin = static_cast<index_t>(i / 2) * 10;
      const Range swept{begin, begin + 10 < extent ? begin + 10 : extent};
      CHECK(steps[i].kind == (i % 2 == 0 ? StepKind::gemm : c.kind));
      CHECK(steps[i].block == (c.over_rows ? Block{swept, {0, n}} : Block{{0, m}, swept}));
    }
    CHECK(count_of(schedule).elements == c.elements);
    CHECK(count(plan, geometry(m, n, k, p, {1})).elements == c.elements);
    CHECK(count_of(schedule).flops == 2 * m * n * k / 4);
  }
  // Uneven parts: one rank moves more than by one sum and another less, all together the same.
  const auto plan = plan_product(pair.a, pair.b);
  index_t whole = 0;
  index_t in_parts = 0;
  for (int rank = 0; rank < 4; ++rank) {
    whole += count(plan, geometry(3, 2, k, p, {rank})).elements;
    in_parts += count(plan, geometry(3, 2, k, p, {rank}), {.sum_width = 1}).elements;
  }
  CHECK(whole == 2 * 3 * 3 * 2);
  CHECK(in_parts == whole);
}

TEST_CASE("the width of sums left open: four parts of at least 512 where the communicator prefers parts, else all") {
  constexpr AxisValues p{2};
  const auto messages = [&](const ProductPlan& plan, index_t m, bool prefers, const MatmulOptions& options) {
    ProductGeometry g = geometry(m, 64, 64, p, {0});
    g.prefers_cut_sums = prefers;
    return count(plan, g, options).messages;
  };
  const auto plan = plan_product(row(1).a, row(1).b);
  const index_t one = messages(plan, 4096, false, {});
  CHECK(messages(plan, 4096, true, {}) == 4 * one);
  CHECK(messages(plan, 1024, true, {}) == 2 * one);
  CHECK(messages(plan, 1500, true, {}) == 2 * one);
  CHECK(messages(plan, 1023, true, {}) == one);
  CHECK(messages(plan, 4096, true, {.sum_width = 4096}) == one);
  CHECK(ProductSchedule(plan, geometry(4096, 64, 64, {1}, {0}), {.sum_width = 8}).sums().panels() == 1);  // one rank
  CHECK(messages(plan, 4096, false, {.sum_width = 1000}) == 5 * one);
  // Where panels come in before, or several sums follow each other, the result is summed as a whole.
  const auto deep = plan_product(SplitKLeft<>::layout, SplitKRight<>::layout);
  CHECK(count(deep, geometry(64, 64, 64, {2, 2, 2}, {})) ==
        count(deep, geometry(64, 64, 64, {2, 2, 2}, {}), {.sum_width = 1}));
}

TEST_CASE("depth: q = 2, d = 3; |A| counts the part in one layer, and only the gradient is summed over Depth") {
  constexpr index_t m = 12, n = 8, k = 24, d = 3;
  constexpr AxisValues grid{3, 2, 2};
  const auto moved = [&](std::size_t i) { return moved_by_each(plan_product(row(i).a, row(i).b), m, n, k, grid, 3); };
  CHECK(moved(8) == (m * k / d + k * n) / 4);  // Summa25D x Summa25DWeight: as AB in each layer
  CHECK(moved(9) == (k * n + m * n / d) / 4);  // Summa25D x transposed(Summa25DWeight): B and C move
  // transposed(Summa25D) x Summa25D: A [m, k] and C [m, n] in each layer, k cut by Depth; then C's block over Depth.
  CHECK(moved(10) == (m * k / d + m * n) / 4 + 2 * (d - 1) * (m * n / 4) / d);
  // Classical 2.5D: each layer multiplies 1/d of k, then C's block over Depth.
  CHECK(moved(11) == (m * k / d + k * n / d) / 4 + 2 * (d - 1) * (m * n / 4) / d);
  const auto scattered = plan_product(row(11).a, row(11).b, Layout{AxisList{1, 0}, AxisList{2}, {}});
  CHECK(moved_by_each(scattered, m, n, k, grid, 3) == (m * k / d + k * n / d) / 4 + (d - 1) * (m * n / 4) / d);
}

TEST_CASE("uneven blocks by hand: 5x3 by 3x4 on 2x2") {
  // A's rows 3+2, k 2+1, B's columns 2+2. Rank (0, 0) receives A's second k-panel, 3x1, and B's second, 1x2.
  constexpr auto plan = plan_product(Summa2D<>::layout, Summa2D<>::layout);
  constexpr AxisValues q{2, 2};
  constexpr auto whole = count(plan, geometry(5, 4, 3, q, {0, 0}));
  static_assert(whole.messages == 2 && whole.elements == 3 * 1 + 1 * 2 && whole.flops == 2 * 3 * 2 * 3);
  // In panels of one, two of each operand in flight: k panels 0, 1 (own for A), 2.
  static_assert(count(plan, geometry(5, 4, 3, q, {0, 0}), {.panel_width = 1}) == Count{2, 5, 36, 2 * (3 * 1 + 1 * 2)});
  static_assert(count(plan, geometry(5, 4, 3, q, {0, 1})).elements == 3 * 2 + 1 * 2);
  static_assert(count(plan, geometry(5, 4, 3, q, {1, 0})).elements == 2 * 1 + 2 * 2);
  static_assert(count(plan, geometry(5, 4, 3, q, {1, 1})).elements == 2 * 2 + 2 * 2);
  // Fewer elements than ranks: the all_reduce of 1 element over 4 ranks is one chunk; its owner moves nothing.
  constexpr auto sum = plan_product(ColumnShard<>::layout, RowShard<>::layout);
  static_assert(count(sum, geometry(1, 1, 9, {4}, {0})) == Count{0, 0, 2 * 3, 1});
  static_assert(count(sum, geometry(1, 1, 9, {4}, {1})) == Count{2, 2, 2 * 2, 1});
  // Nothing at all.
  static_assert(count(plan, geometry(0, 4, 3, q, {1, 1})) == Count{});  // without elements nothing moves
  static_assert(count(plan, geometry(5, 4, 0, q, {1, 1})) == Count{});
  CHECK(true);
}

TEST_CASE("single steps") {
  Count c;
  Step step;
  step.kind = StepKind::send_recv;
  step.block = {{0, 2}, {0, 3}};
  step.ranks = 3;
  step.source = 1;
  add_step(step, c);
  CHECK(c == Count{1, 6, 0, 0});
  step.source = 0;  // from itself
  add_step(step, c);
  CHECK(c == Count{1, 6, 0, 0});
  step.kind = StepKind::reduce;
  step.root = 0;
  add_step(step, c);  // the root sends nothing
  CHECK(c.elements == 6);
  step.self = 2;
  add_step(step, c);
  CHECK(c == Count{2, 12, 0, 0});
  step.kind = StepKind::all_reduce;  // chunks of 2: 4 others', twice
  add_step(step, c);
  CHECK(c == Count{2 + 4, 12 + 8, 0, 0});
}

}  // namespace
}  // namespace partita::test
