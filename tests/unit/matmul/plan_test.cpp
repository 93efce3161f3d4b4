// SPDX-License-Identifier: Apache-2.0
// The rule over all 2401 pairs of partitions over three axes: how many of each kind, and every accepted pair run.

#include <doctest/doctest.h>

#include <set>

#include "support/grids.hpp"

using namespace partita;
using namespace partita::test;

namespace {

constexpr auto layouts = all_layouts();

struct Kinds {
  int count[5] = {};
  bool remedies_work = true;
  bool results_from_one_side = true;

  constexpr int of(Algorithm algorithm) const { return count[static_cast<int>(algorithm)]; }
};

/// Whether A or B stays, the natural result must tell: else matmul<Result> could choose.
constexpr bool one_side_only(const Layout& a, const Layout& b) {
  const Plan left = detail::plan_staying(a, b, Side::left);
  const Plan right = detail::plan_staying(a, b, Side::right);
  if (left.algorithm != Algorithm::stationary_a || right.algorithm != Algorithm::stationary_b) return true;
  Finish ignored;
  return !detail::finishes(left.natural, right.natural, ignored) &&
         !detail::finishes(right.natural, left.natural, ignored);
}

/// One row of the 49×49 table: evaluated by itself, to stay within every compiler's limits.
constexpr Kinds kinds_of(const Layout& a) {
  Kinds kinds;
  for (const Layout& b : layouts) {
    const Plan plan = plan_of(a, b);
    ++kinds.count[static_cast<int>(plan.algorithm)];
    if (!plan.valid()) {
      const bool left = plan.remedy_side == Side::left;
      // The remedy is an all-gather: the operand keeps a prefix of its lists.
      const Layout& before = left ? a : b;
      const bool gathers = before.rows.starts_with(plan.remedy.rows) && before.cols.starts_with(plan.remedy.cols);
      const Plan mended = left ? plan_of(plan.remedy, b) : plan_of(a, plan.remedy);
      kinds.remedies_work = kinds.remedies_work && gathers && mended.valid();
    } else {
      kinds.results_from_one_side = kinds.results_from_one_side && one_side_only(a, b);
    }
  }
  return kinds;
}

template <std::size_t I>
constexpr Kinds row_kinds = kinds_of(layouts[I]);

template <std::size_t... I>
constexpr Kinds all_kinds(std::index_sequence<I...>) {
  Kinds sum;
  for (const Kinds& row : {row_kinds<I>...}) {
    for (int i = 0; i < 5; ++i) sum.count[i] += row.count[i];
    sum.remedies_work = sum.remedies_work && row.remedies_work;
    sum.results_from_one_side = sum.results_from_one_side && row.results_from_one_side;
  }
  return sum;
}

constexpr Kinds kinds = all_kinds(std::make_index_sequence<49>{});
static_assert(kinds.of(Algorithm::local) == 280);
static_assert(kinds.of(Algorithm::stationary_c) == 1302);
static_assert(kinds.of(Algorithm::stationary_a) == 72);
static_assert(kinds.of(Algorithm::stationary_b) == 291);
static_assert(kinds.of(Algorithm::refused) == 456);
static_assert(kinds.remedies_work, "each refusal names one all-gather that makes the pair valid");
static_assert(kinds.results_from_one_side, "a result asked for is never reachable from both sides");

// A schedule is a constant expression too.
constexpr ProductSchedule summa(plan_product(Summa2D<>::layout, Summa2D<>::layout),
                                {.m = 6, .n = 4, .k = 5, .a_units = {}, .b_units = {}, .extents = {2, 2}},
                                {.panel_width = 1});
static_assert(count_of(summa).flops == 2 * 3 * 2 * 5);
static_assert(count_of(summa).elements == 3 * 2 + 2 * 2);  // two k-panels of A and of B belong to others

// Counts are 64 bits wide: a panel here has 5·10⁹ elements, more than fit an int.
constexpr ProductSchedule large(
    plan_product(Summa2D<>::layout, Summa2D<>::layout),
    {.m = 200000, .n = 200000, .k = 200000, .a_units = {}, .b_units = {}, .extents = {2, 2}}, {.panel_width = 50000});
static_assert(count_of(large).elements == index_t{20000000000});
static_assert(count_of(large).flops == index_t{4000000000000000});
static_assert(count_of(large).workspace == index_t{20000000000});

}  // namespace

TEST_CASE("every accepted pair of the 2401 gives the serial product") {
  Failures failures;
  std::size_t run = 0;
  for (const std::vector<int>& extents : {std::vector<int>{2, 2, 2}, {1, 2, 3}}) {
    std::vector<ProductCase> cases;
    for (const Layout& a : layouts) {
      for (const Layout& b : layouts) {
        ProductCase c;
        c.a = a;
        c.b = b;
        c.plan = plan_product(a, b);
        if (!c.plan.valid()) continue;
        c.m = 7;
        c.n = 9;
        c.k = 11;
        c.options.panel_width = 2;
        if (cases.size() % 2 == 1) c.options.sum_width = 2;
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
    run = cases.size();
    run_cases_as<float, CountedContext>(extents, cases, failures);
  }
  CHECK(run == 1945);
  INFO(failures.text());
  CHECK(failures.count() == 0);
}

TEST_CASE(
    "the first product on a grid needs no other: every accepted pair on a grid of its own, sizes below the grid") {
  Failures failures;
  on_grid<CountedContext>({2, 2, 2}, [&](ProcessGrid<CountedContext>& ranks) {
    std::uint64_t seed = 0;
    for (const Layout& a : layouts) {
      for (const Layout& b : layouts) {
        ProductCase c;
        c.a = a;
        c.b = b;
        c.plan = plan_product(a, b);
        if (!c.plan.valid()) continue;
        c.seed = ++seed;
        c.m = seed % 2 == 0 ? 1 : 3;
        c.n = seed % 3 == 0 ? 3 : 1;
        c.k = seed % 5 == 0 ? 0 : 1;
        // Some ranks have nothing to sweep here; sub-communicators must come into being all the same.
        ProcessGrid<CountedContext> fresh(ranks.context(), names_25d, ranks.extents());
        const CaseResult found = run_case<float>(fresh, c);
        if (!found.failure.empty()) failures.add(describe(c, names_25d) + ": " + found.failure);
      }
    }
  });
  INFO(failures.text());
  CHECK(failures.count() == 0);
}
