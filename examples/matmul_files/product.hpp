// SPDX-License-Identifier: Apache-2.0
// One product of two .npy files under one policy, as a rank runs it: load, multiply, time, count.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "partita/partita.hpp"
#include "policies.hpp"

namespace matmul_files {

/// Ranks are threads that multiply with Eigen; what they move is counted from the calls of their communicator.
using RankContext = Context<EigenBackend, CountingComm<ThreadComm>>;

/// What to multiply, and how: C = alpha·op(A)·op(B) + beta·C0.
struct Job {
  std::string a, b, c0;  // .npy files; c0 may be empty: zeros
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  int repeat = 1;
  MatmulOptions options;
};

/// Messages and bytes that one rank moved in each product: as counted, and as its schedule predicts.
struct Moved {
  index_t messages = 0, bytes = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};
struct RankMoved {
  Moved counted, predicted;
};

/// What is known when a job is done. All ranks fill in their own entry of `ranks`, rank 0 the rest.
struct Report {
  explicit Report(int rank_count) : ranks(static_cast<std::size_t>(rank_count)) {}

  std::string strategy, grid, schedule, steps;
  std::vector<double> seconds;  // of each product: the slowest rank's
  std::vector<RankMoved> ranks;
};

/// One operand: a tensor with partition P, or, where the file holds the transpose, one with the transposed partition.
/// Either way view() is op(X) with partition P.
template <class T, class P>
class Operand {
 public:
  template <class G>
  Operand(const G& grid, const std::string& path, bool transpose)
      : stored_(transpose ? Stored(std::in_place_index<1>, load_npy<T, transposed_t<P>>(grid, path))
                          : Stored(std::in_place_index<0>, load_npy<T, P>(grid, path))) {}

  [[nodiscard]] TensorView<T, P, RankContext> view() const {
    if (stored_.index() == 0) return as_view(std::get<0>(stored_));
    return transposed(std::get<1>(stored_));
  }

 private:
  using Stored = std::variant<DistTensor<T, P, RankContext>, DistTensor<T, transposed_t<P>, RankContext>>;
  Stored stored_;
};

/// "Row 2 x Col 4".
inline std::string grid_text(std::span<const std::string_view> names, const AxisValues& extents) {
  std::string text;
  for (std::size_t a = 0; a < names.size(); ++a) {
    text += (a == 0 ? "" : " x ") + std::string(names[a]) + " " + std::to_string(extents[a]);
  }
  return text;
}

/// "3 panels, two in flight: 6 broadcast, 3 gemm".
template <class Schedule>
std::string schedule_text(const Schedule& schedule) {
  index_t panels = 0;
  std::vector<std::pair<StepKind, index_t>> kinds;
  schedule.for_each([&](const Step& step) {
    if (step.kind == StepKind::gemm && step.last) ++panels;
    auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& entry) { return entry.first == step.kind; });
    if (found == kinds.end()) found = kinds.insert(found, {step.kind, 0});
    ++found->second;
  });
  std::string text = std::to_string(panels) + (panels == 1 ? " panel" : " panels");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + std::to_string(kinds[i].second) + " " + std::string(name_of(kinds[i].first));
  }
  return text;
}

/// Runs the job on this rank of a grid of the given extents, and calls use(c) with the result, a DistTensor.
/// Throws Error where a file, a shape or the count of what moved is wrong.
template <class T, class Left, class Right, class Use>
void multiply_files(RankContext& context, std::span<const int> extents, const Job& job, Report& report, const Use& use) {
  const auto grid = make_grid_of<typename Left::grid_type>(context, extents);
  const Operand<T, Left> left(grid, job.a, job.transpose_a);
  const Operand<T, Right> right(grid, job.b, job.transpose_b);
  const auto a = left.view();
  const auto b = right.view();

  // The rule of the two partitions gives the result's partition, ...
  using Rule = MatmulRule<Left, Right>;
  using Result = DistTensor<T, typename Rule::result, RankContext>;
  const Shape shape{a.shape.rows, b.shape.cols};
  const Result c0 = job.c0.empty() ? Result(grid, shape) : load_npy<T, typename Rule::result>(grid, job.c0);
  Result c = c0.clone();

  // ... and the schedule that is run here, and priced and printed.
  const ProductGeometry geometry{.m = shape.rows,
                                 .n = shape.cols,
                                 .k = a.shape.cols,
                                 .a_units = a.units,
                                 .b_units = b.units,
                                 .extents = grid.ranks().extents(),
                                 .coordinates = grid.ranks().coordinates()};
  const auto schedule = Rule::schedule(geometry, job.options);
  const Count price = job.alpha == 0 ? Count{} : count_of(schedule);  // alpha = 0 reads neither A nor B

  RankMoved& moved = report.ranks[static_cast<std::size_t>(context.rank())];
  moved.predicted = {price.messages, price.elements * static_cast<index_t>(sizeof(T))};
  for (int i = 0; i < job.repeat; ++i) {
    context.backend().copy(std::as_const(c0).local(), c.local());
    context.comm().barrier();
    const Traffic before = context.comm().traffic();
    const auto start = std::chrono::steady_clock::now();
    matmul_into(c, a, b, static_cast<T>(job.alpha), static_cast<T>(job.beta), job.options);
    const std::chrono::nanoseconds time = std::chrono::steady_clock::now() - start;
    const Traffic traffic = context.comm().traffic() - before;
    moved.counted = {traffic.messages, traffic.bytes};
    if (moved.counted != moved.predicted) {
      throw Error("rank " + std::to_string(context.rank()) + " moved " + std::to_string(traffic.messages) +
                  " messages and " + std::to_string(traffic.bytes) + " bytes, its schedule says " +
                  std::to_string(moved.predicted.messages) + " and " + std::to_string(moved.predicted.bytes));
    }
    const index_t slowest = context.comm().agree(time.count());
    if (context.rank() == 0) report.seconds.push_back(static_cast<double>(slowest) * 1e-9);
  }

  if (context.rank() == 0) {
    const std::span<const std::string_view> names(Left::grid_type::names);
    report.strategy = layout_text(Left::layout, names) + " x " + layout_text(Right::layout, names) + " -> " +
                      layout_text(Rule::result::layout, names) + ", " + plan_text(Rule::plan, names);
    report.grid = grid_text(names, geometry.extents);
    report.schedule = schedule_text(schedule);
    report.steps = steps_text(schedule, names, 40);
  }
  context.comm().barrier();  // every rank's entry of the report is there
  use(std::as_const(c));
}

/// Runs the job with scalar T under a policy on as many threads as the grid has ranks. Throws the first rank's error.
template <class T, class Use>
Report multiply_files(const AnyPolicy& policy, std::span<const int> extents, const Job& job, const Use& use) {
  int ranks = 1;
  for (const int extent : extents) ranks *= extent;
  Report report(ranks);
  LaunchOptions launch;
  launch.deadline = std::chrono::hours(24);  // a rank may wait long for another one's product
  std::visit(
      [&]<class Left, class Right>(const Policy<Left, Right>&) {
        launch_threads(ranks, launch, [&](ThreadComm comm) {
          RankContext context(CountingComm(std::move(comm)));
          multiply_files<T, Left, Right>(context, extents, job, report,
                                         [&](const auto& c) { use(context, report, c); });
        });
      },
      policy);
  return report;
}

}  // namespace matmul_files
