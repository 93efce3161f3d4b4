// SPDX-License-Identifier: Apache-2.0
// Runs a body on every rank of a grid of threads whose extents are known at run time only.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/layouts.hpp"
#include "support/product_case.hpp"

namespace partita::test {

/// Names of a grid with `axes` axes.
inline std::span<const std::string_view> axis_names(int axes) {
  if (axes == 1) return names_1d;
  if (axes == 2) return names_2d;
  return names_25d;
}

inline int rank_count(const std::vector<int>& extents) {
  int ranks = 1;
  for (const int extent : extents) ranks *= extent;
  return ranks;
}

inline ThreadComm communicator_for(CountedContext*, ThreadComm comm) { return comm; }
inline CopyingComm<ThreadComm> communicator_for(CopyingContext*, ThreadComm comm) {
  return CopyingComm<ThreadComm>(std::move(comm));
}

/// Calls body(ProcessGrid<Ctx>&) on each rank of a grid of threads.
template <class Ctx, class Body>
void on_grid(const std::vector<int>& extents, Body body) {
  launch_threads(rank_count(extents), [&](ThreadComm& comm) {
    Ctx context(CountingComm(communicator_for(static_cast<Ctx*>(nullptr), std::move(comm))));
    AxisValues values{};
    for (std::size_t a = 0; a < extents.size(); ++a) values[a] = extents[a];
    ProcessGrid<Ctx> grid(context, axis_names(static_cast<int>(extents.size())), values);
    body(grid);
  });
}

/// Failures of all ranks, in words; only the first few are kept.
class Failures {
 public:
  void add(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    if (count_ <= 5) text_ += text + "\n";
  }
  [[nodiscard]] index_t count() const { return count_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::mutex mutex_;
  index_t count_ = 0;
  std::string text_;
};

/// Runs each case on each rank of the grid by run(grid, case, number), and gives the panels of each case on rank 0.
template <class Ctx, class Run>
std::vector<index_t> run_cases_by(const std::vector<int>& extents, const std::vector<ProductCase>& cases, Run run,
                                  Failures& failures) {
  std::vector<index_t> panels(cases.size());
  const auto names = axis_names(static_cast<int>(extents.size()));
  on_grid<Ctx>(extents, [&](ProcessGrid<Ctx>& grid) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const CaseResult found = run(grid, cases[i], i);
      if (!found.failure.empty()) {
        failures.add("rank " + std::to_string(grid.context().rank()) + " of " +
                     detail::grid_text(names, grid.extents()) + ", case " + std::to_string(i) + ": " +
                     describe(cases[i], names) + ": " + found.failure);
      }
      if (grid.context().rank() == 0) panels[i] = found.panels;
    }
  });
  return panels;
}

/// All cases with the scalar T.
template <class T, class Ctx>
std::vector<index_t> run_cases_as(const std::vector<int>& extents, const std::vector<ProductCase>& cases,
                                  Failures& failures) {
  const auto run = [](ProcessGrid<Ctx>& grid, const ProductCase& c, std::size_t) { return run_case<T>(grid, c); };
  return run_cases_by<Ctx>(extents, cases, run, failures);
}

/// `scalar(i)` in 0 … 5 is the scalar type of case i.
template <class Ctx, class Scalar>
std::vector<index_t> run_cases(const std::vector<int>& extents, const std::vector<ProductCase>& cases, Scalar scalar,
                               Failures& failures) {
  const auto run = [scalar](ProcessGrid<Ctx>& grid, const ProductCase& c, std::size_t i) {
    return run_case_of(scalar(i), grid, c);
  };
  return run_cases_by<Ctx>(extents, cases, run, failures);
}

}  // namespace partita::test
