// SPDX-License-Identifier: Apache-2.0
// A user's own axes and partitions: the rule, the executor and the messages know nothing of the named policies.

#include <doctest/doctest.h>

#include "partita/backend/eigen.hpp"
#include "partita/comm/launch.hpp"
#include "partita/comm/thread.hpp"
#include "partita/matmul/explain.hpp"
#include "partita/partition/policies.hpp"
#include "partita/tensor/gather.hpp"
#include "support/fills.hpp"

namespace user {

struct Node {
  static constexpr std::string_view name = "Node";
};

using namespace partita;

/// Data parallel over nodes, tensor parallel within one.
template <int N = dynamic, int P = dynamic>
using NodeGrid = Grid<Axis<Node, N>, Axis<Tp, P>>;
template <int N = dynamic, int P = dynamic>
using Tokens = Partition<NodeGrid<N, P>, RowsOver<Node>>;
template <int N = dynamic, int P = dynamic>
using ColumnWeight = Partition<NodeGrid<N, P>, RowsOver<>, ColsOver<Tp>>;
template <int N = dynamic, int P = dynamic>
using RowWeight = Partition<NodeGrid<N, P>, RowsOver<Tp>>;
template <int N = dynamic, int P = dynamic>
using Hidden = Partition<NodeGrid<N, P>, RowsOver<Node>, ColsOver<Tp>>;
/// A weight that no rank holds twice.
template <int N = dynamic, int P = dynamic>
using ShardedWeight = Partition<NodeGrid<N, P>, RowsOver<Node>, ColsOver<Tp>>;

}  // namespace user

namespace {

using namespace partita;
using namespace partita::test;
using namespace user;

template <class L, class R, class Result>
constexpr bool gives(Algorithm algorithm) {
  return MatmulRule<L, R>::plan.plan.algorithm == algorithm &&
         std::is_same_v<typename MatmulRule<L, R>::result, Result>;
}
// A column-parallel and a row-parallel layer on tokens that are spread over nodes, and the gradient of a weight.
static_assert(gives<Tokens<2, 3>, ColumnWeight<2, 3>, Hidden<2, 3>>(Algorithm::local));
static_assert(gives<Hidden<2, 3>, RowWeight<2, 3>, Tokens<2, 3>>(Algorithm::local));
static_assert(gives<transposed_t<Tokens<2, 3>>, Hidden<2, 3>, ColumnWeight<2, 3>>(Algorithm::local));
// Weights cut over nodes too come in by panels.
static_assert(gives<Tokens<2, 3>, ShardedWeight<2, 3>, Hidden<2, 3>>(Algorithm::stationary_c));

double serial(index_t k, index_t i, index_t j) {
  double sum = 0;
  for (index_t l = 0; l < k; ++l) sum += static_cast<double>(fill_a(i, l) * fill_b(l, j));
  return sum;
}

}  // namespace

TEST_CASE("products on a grid of the user's axes equal the serial ones") {
  launch_threads(6, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<NodeGrid<>>(context, 2, 3);
    const auto x = from_function<double, Tokens<>>(grid, {5, 7}, fill_a);
    const auto check = [&](const auto& weight) {
      const auto y = matmul(x, weight);
      static_assert(std::is_same_v<typename std::remove_cvref_t<decltype(y)>::partition, Hidden<>>);
      const auto whole = gather(y);
      for (index_t i = 0; i < 5; ++i) {
        for (index_t j = 0; j < 8; ++j) CHECK(whole(i, j) == serial(7, i, j));
      }
    };
    check(from_function<double, ColumnWeight<>>(grid, {7, 8}, fill_b));
    check(from_function<double, ShardedWeight<>>(grid, {7, 8}, fill_b));
  });
}

TEST_CASE("messages name the user's axes") {
  launch_threads(2, [](ThreadComm& comm) {
    Context<EigenBackend, ThreadComm> context(std::move(comm));
    const auto grid = make_grid<NodeGrid<2, 1>>(context);
    const auto x = zeros<float, Tokens<2, 1>>(grid, {4, 4});
    const auto w = zeros<float, ShardedWeight<2, 1>>(grid, {4, 4});
    CHECK(explain(x, w).find("each k-panel of B broadcast along Node") != std::string::npos);
    CHECK_THROWS_WITH_AS((void)(make_grid<NodeGrid<2, 2>>(context)),
                         "GridError: Grid<Node 2, Tp 2> needs 4 ranks (2*2), the communicator has 2", GridError);
  });
}
