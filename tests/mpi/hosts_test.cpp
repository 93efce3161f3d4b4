// SPDX-License-Identifier: Apache-2.0
// Two hosts with two ranks each, which hosts_test.sh makes: panels are read in place within a host, copied between.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "laws/communicator_laws.hpp"
#include "mpi_main.hpp"
#include "partita/backend/eigen.hpp"
#include "partita/matmul/matmul.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/gather.hpp"

using namespace partita;
using namespace partita::test;

namespace {
double value(index_t i, index_t j) { return static_cast<double>((3 * i + 5 * j) % 7 - 3); }
}  // namespace

TEST_CASE("two hosts: panels are read in place within one, and copied between them") {
  if (std::getenv("PARTITA_TEST_HOSTS") == nullptr) return;
  MpiComm& world = mpi_world();
  REQUIRE(world.size() == 4);
  const auto node = [&](int r) { return world.world()->node_of(r); };
  REQUIRE(node(0) == node(1));
  REQUIRE(node(2) == node(3));
  REQUIRE(node(0) != node(2));
  laws::check_communicator(world);

  Context<EigenBackend, MpiComm> context{MpiComm(world.native(), test_options())};
  const MpiStatistics& statistics = context.comm().statistics();
  const auto grid = make_grid<Summa2D<>>(context, 2, 2);
  const auto a = from_function<double, Summa2D<>>(grid, {61, 47}, value);
  const auto b = from_function<double, Summa2D<>>(grid, {47, 53}, value);
  const MpiStatistics before = statistics;
  MatmulOptions options;
  options.panel_width = 8;
  const auto c = matmul(a, b, options);
  // On a 2×2 grid rows are hosts: A's panels move along Col, within one; B's along Row, between the two.
  const index_t in_place = statistics.panels_in_place - before.panels_in_place;
  const index_t copied = statistics.panels_copied - before.panels_copied;
  CHECK(in_place >= 3);
  CHECK(copied >= 3);
  std::printf("rank %d: %lld panels read in place, %lld copied from the other host\n", world.rank(),
              static_cast<long long>(in_place), static_cast<long long>(copied));
  const auto whole = gather(c);
  index_t wrong = 0;
  for (index_t i = 0; i < 61; ++i) {
    for (index_t j = 0; j < 53; ++j) {
      double wanted = 0;
      for (index_t l = 0; l < 47; ++l) wanted += value(i, l) * value(l, j);
      if (whole(i, j) != wanted) ++wrong;
    }
  }
  CHECK(wrong == 0);
}
