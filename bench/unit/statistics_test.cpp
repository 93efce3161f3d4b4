// SPDX-License-Identifier: Apache-2.0
// The arithmetic with which the benchmarks judge: medians, intervals, means, the lower bound, and what is counted.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "side_by_side/goals.hpp"
#include "support/lower_bound.hpp"
#include "support/policies.hpp"
#include "support/statistics.hpp"

using namespace bench;

TEST_CASE("a median is the middle value, or the mean of the two middle ones") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(median({7}) == 7);
  CHECK_THROWS_AS((void)median({}), std::invalid_argument);
}

TEST_CASE("the interval of a median leaves out as many order statistics as tables of the sign test say") {
  CHECK(spare_order_statistics(5) == -1);  // 2/32 lie outside of the whole span
  CHECK(spare_order_statistics(6) == 0);
  CHECK(spare_order_statistics(7) == 0);
  CHECK(spare_order_statistics(8) == 0);
  CHECK(spare_order_statistics(9) == 1);
  CHECK(spare_order_statistics(11) == 1);
  CHECK(spare_order_statistics(12) == 2);
  CHECK(spare_order_statistics(25) == 7);

  const Estimate seven = estimate_median({5, 1, 4, 2, 3, 7, 6});
  CHECK(seven.low == 1);
  CHECK(seven.value == 4);
  CHECK(seven.high == 7);
  const Estimate nine = estimate_median({9, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(nine.low == 2);
  CHECK(nine.high == 8);
}

TEST_CASE("the interval of a median covers it as often as it says") {
  // Draws from a skewed distribution whose median is 1: x = 2^(4u - 2) with u uniform.
  std::uint64_t state = 7;
  const auto uniform = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  int covered = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 9; ++i) values.push_back(std::exp2(4 * uniform() - 2));
    const Estimate e = estimate_median(values);
    if (e.low <= 1 && 1 <= e.high) ++covered;
  }
  CHECK(covered > 0.95 * 4000);  // 96.1 % by the binomial distribution
  CHECK(covered < 0.97 * 4000);
}

TEST_CASE("a geometric mean") {
  CHECK(geometric_mean(std::vector<double>{2, 8}) == doctest::Approx(4));
  CHECK(geometric_mean(std::vector<double>{3}) == doctest::Approx(3));
  CHECK_THROWS_AS((void)geometric_mean(std::vector<double>{}), std::invalid_argument);
}

TEST_CASE("ratios of medians and their mean lie inside of their intervals, which do not change") {
  const std::vector<Comparison> one{{{2, 2.2, 1.9, 2.1, 2, 2.05, 1.95}, {1, 1.1, 0.9, 1, 1.05, 0.95, 1}}};
  const Estimate e = estimate_ratio(one);
  CHECK(e.value == doctest::Approx(2));
  CHECK(e.low < 2);
  CHECK(e.high > 2);
  CHECK(e.low > 1.7);
  CHECK(e.high < 2.4);
  CHECK(estimate_ratio(one).low == e.low);

  const std::vector<Comparison> paired{{{2, 2, 2}, {}}, {{8, 8, 8}, {}}};
  const Estimate mean = estimate_ratio(paired);
  CHECK(mean.value == doctest::Approx(4));
  CHECK(mean.low == doctest::Approx(4));
  CHECK(mean.high == doctest::Approx(4));
}

TEST_CASE("the lower bound in its three regimes") {
  // One dimension: only the smallest matrix moves. m/n >= p.
  CHECK(least_elements_moved(65536, 256, 256, 4) == doctest::Approx(256.0 * 256 * 3 / 4));
  CHECK(least_elements_moved(256, 256, 65536, 8) == doctest::Approx(256.0 * 256 * 7 / 8));
  // Two: 2 (mnk²/p)^(1/2) - (mk + nk)/p.
  CHECK(least_elements_moved(8192, 128, 8192, 4) == doctest::Approx(8192.0 * 128 - 2 * 8192.0 * 128 / 4));
  // Three: 3 (mnk/p)^(2/3) - (mn + mk + nk)/p.
  CHECK(least_elements_moved(512, 512, 512, 8) == doctest::Approx(3.0 * 512 * 512 / 8));
  CHECK(least_elements_moved(100, 100, 100, 1) == doctest::Approx(0));

  // The regimes meet: no jump where one begins. m/n = p, and p = mn/k².
  for (const double step : {-1.0, 1.0}) {
    const auto at = [step](double x) { return static_cast<partita::index_t>(x + step); };
    CHECK(least_elements_moved(at(400000), 100000, 50000, 4) ==
          doctest::Approx(least_elements_moved(400000, 100000, 50000, 4)).epsilon(1e-4));
    CHECK(least_elements_moved(at(200000), 200000, 100000, 4) ==
          doctest::Approx(least_elements_moved(200000, 200000, 100000, 4)).epsilon(1e-4));
  }
  // The order of the dimensions does not matter.
  CHECK(least_elements_moved(300, 200, 100, 7) == doctest::Approx(least_elements_moved(100, 300, 200, 7)));
}

TEST_CASE("no one-copy policy moves less than the lower bound on its busiest rank") {
  for (const EfficiencyGoals& row : efficiency_goals) {
    const Problem& p = row.problem;
    for (const int ranks : {2, 4, 8, 16}) {
      const double least = least_elements_moved(p.m, p.n, p.k, ranks);
      for (const Policy& policy : policies_for(ranks)) {
        CAPTURE(p.name);
        CAPTURE(policy.name());
        CHECK(static_cast<double>(elements_moved(policy, p, ranks)) >= least * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("one-copy policies hold one copy: blocks of A, B and C have as many elements as the matrices") {
  const Problem p{"", 96, 80, 112};
  for (const int ranks : {2, 4, 8, 16}) {
    for (const Policy& policy : policies_for(ranks)) {
      CAPTURE(policy.name());
      std::visit(
          [&]<class L, class R, class C>(const Pair<L, R, C>&) {
            index_t held = 0;
            partita::AxisValues extents{};
            partita::AxisList axes;
            for (std::size_t a = 0; a < policy.extents.size(); ++a) {
              extents[a] = policy.extents[a];
              axes.push_back(static_cast<int>(a));
            }
            for (int rank = 0; rank < ranks; ++rank) {
              const auto at = partita::coordinates_along(axes, extents, rank);
              held += partita::block_of(L::layout, {p.m, p.k}, {}, extents, at).size();
              held += partita::block_of(R::layout, {p.k, p.n}, {}, extents, at).size();
              held += partita::block_of(C::layout, {p.m, p.n}, {}, extents, at).size();
            }
            CHECK(held == p.m * p.k + p.k * p.n + p.m * p.n);
          },
          policy.family->pair);
    }
  }
}

TEST_CASE("policies have names of their own, and every number of ranks has some") {
  for (const int ranks : {2, 3, 4, 6, 8, 16}) {
    std::set<std::string> names;
    for (const Policy& policy : policies_for(ranks, true)) CHECK(names.insert(policy.name()).second);
    CHECK(policies_for(ranks).size() >= 4);
  }
}

TEST_CASE("there are no more cells than may be") { CHECK(all_cells().size() + std::size(collectives) <= most_cells); }
