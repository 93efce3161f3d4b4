// SPDX-License-Identifier: Apache-2.0
// Products of operands that lie as the user has them, in blocks of columns, with a result as each policy has it: taken
// from there, or redistributed first; beside them the same product with operands that lie as the policy wants them.
// `time / native` is what that costs.
#include "side_by_side/goals.hpp"
#include "support/host.hpp"
#include "support/instances_counted.hpp"
#include "support/product.hpp"

namespace {

using namespace bench;

template <class T, class Comm>
void multiply(Place<Comm>& place, const Policy& policy, const Problem& problem, FromColumns how) {
  using Counted = partita::CountingComm<Comm>;
  const auto native = make_product<T, Counted>(place.context, policy, problem);
  const auto product = make_product_from_columns<T, Counted>(place.context, policy, problem, how);
  const auto time_native = [&] {
    native->run();
    place.team.sync();
    const double start = now();
    native->run();
    const double end = now();
    return place.team.greatest(end) - place.team.least(start);
  };
  const double before = time_native();
  const double seconds = place.time([&] { product->run(); });
  const double after = time_native();
  const partita::Traffic moved = place.moved([&] { product->run(); });
  place.counter("GFLOP/s", problem.flops() / seconds / 1e9);
  place.counter("time / native", 2 * seconds / (before + after));
  place.counter("moved", static_cast<double>(moved.bytes));
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks(argc, argv, []<class Comm>(Host<Comm>& host) {
    for (const EfficiencyGoals& row : efficiency_goals) {
      const Problem& problem = row.problem;
      if (problem.transpose_a || problem.transpose_b) continue;
      for (const int ranks : host.rank_counts()) {
        for (const Policy& policy : candidates(problem, ranks, 4)) {
          for (const FromColumns how : {FromColumns::across, FromColumns::redistributed}) {
            const char* name = how == FromColumns::across ? "/across to " : "/redistributed to ";
            enroll_benchmark(
                host, std::string("f32/") + problem.name + name + policy.name(), ranks, iterations_for(problem.flops()),
                [policy, problem, how](Place<Comm>& place) { multiply<float>(place, policy, problem, how); });
          }
        }
      }
    }
  });
}
