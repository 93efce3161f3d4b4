// SPDX-License-Identifier: Apache-2.0
// Products: policy × shape × ranks, as threads or, under mpirun, as processes. `moved` and `predicted` are the bytes of
// the busiest rank, as its communicator counts them and as its schedule says.
#include "side_by_side/goals.hpp"
#include "support/host.hpp"
#include "support/instances_counted.hpp"
#include "support/product.hpp"

namespace {

using namespace bench;

/// The baseline's product, whose matrices are on rank 0.
template <class T>
class BlasBaseline final : public Baseline {
 public:
  BlasBaseline(const Problem& problem, bool first) {
    if (first) product_ = std::make_unique<BlasProduct<T>>(problem);
  }
  void run() override { product_->run(); }

 private:
  std::unique_ptr<BlasProduct<T>> product_;
};

template <class T, class Comm>
void multiply(Place<Comm>& place, const Policy& policy, const Problem& problem) {
  BlasBaseline<T> baseline(problem, place.team.rank() == 0);
  Contest contest(place.team, place.cores, baseline);
  const auto product = make_product<T, partita::CountingComm<Comm>>(place.context, policy, problem);
  const double before = contest.time_baseline(contest.repeat());
  const double seconds = place.time([&] { product->run(); });
  const double after = contest.time_baseline(contest.repeat());
  const partita::Traffic moved = place.moved([&] { product->run(); });
  const index_t predicted = elements_moved(policy, problem, place.team.size()) * static_cast<index_t>(sizeof(T));
  place.counter("GFLOP/s", problem.flops() / seconds / 1e9);
  place.counter("efficiency", (before + after) / 2 / seconds);
  place.counter("moved", static_cast<double>(moved.bytes));
  place.counter("predicted", static_cast<double>(predicted));
  if (moved.bytes != predicted) place.fail("the communicator counts other bytes than the schedule");
}

template <class T, class Comm>
void enroll_scalar(Host<Comm>& host) {
  for (const EfficiencyGoals& row : efficiency_goals) {
    const Problem& problem = row.problem;
    for (const int ranks : host.rank_counts()) {
      for (const Policy& policy : policies_for(ranks, true)) {
        const std::string name = std::string(scalar_name<T>()) + "/" + problem.name + "/" + policy.name();
        enroll_benchmark(host, name, ranks, iterations_for(problem.flops()),
                         [policy, problem](Place<Comm>& place) { multiply<T>(place, policy, problem); });
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks(argc, argv, []<class Comm>(Host<Comm>& host) {
    enroll_scalar<float>(host);
    enroll_scalar<double>(host);
  });
}
