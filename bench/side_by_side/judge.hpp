// SPDX-License-Identifier: Apache-2.0
// From samples to efficiencies, and from these to verdicts on the goals.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/lower_bound.hpp"
#include "../support/statistics.hpp"
#include "collective_cell.hpp"
#include "goals.hpp"
#include "records.hpp"

namespace bench {

/// Baseline over contestant, round by round.
[[nodiscard]] inline std::vector<double> efficiencies(const Series& series) {
  std::vector<double> values;
  for (const Sample& s : series.samples) values.push_back((s.before + s.after) / 2 / s.seconds);
  return values;
}

/// The ratios of two contestants' efficiencies, round by round.
[[nodiscard]] inline std::vector<double> paired_ratios(const Series& above, const Series& below) {
  std::vector<double> a = efficiencies(above);
  const std::vector<double> b = efficiencies(below);
  a.resize(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] /= b[i];
  return a;
}

/// How one goal came out.
struct Verdict {
  std::string what;     // "threads 4 f32 512x512x512"
  std::string measure;  // "efficiency"
  Estimate estimate;
  double goal;
  bool at_most = false;                         // the value should lie below the goal, not above
  std::optional<Estimate> bare = std::nullopt;  // the same of the local products alone

  /// The whole interval lies on the wrong side.
  [[nodiscard]] bool missed() const { return at_most ? estimate.low > goal : estimate.high < goal; }
  /// The value itself does, whatever the interval.
  [[nodiscard]] bool short_of_it() const { return at_most ? estimate.value > goal : estimate.value < goal; }
};

namespace detail {

/// What the local products of a policy reach by themselves, where they were run.
[[nodiscard]] inline std::optional<Estimate> bare_efficiency(const Records& records, const std::string& key,
                                                             const std::string& policy) {
  for (const Series& series : records.of(key)) {
    if (series.role == "bare" && series.name == policy) return estimate_median(efficiencies(series));
  }
  return std::nullopt;
}

inline void judge_efficiencies(const Records& records, std::vector<Verdict>& verdicts) {
  for (const Cell& cell : all_cells()) {
    const std::string key = cell_key(cell);
    double goal = no_goal;
    for (const EfficiencyGoals& row : efficiency_goals) {
      if (std::string_view(row.problem.name) == cell.problem.name) goal = goal_of(row, cell);
    }
    if (const Series* ours = records.find(key, "ours"); ours != nullptr && goal != no_goal) {
      verdicts.push_back({key, "efficiency", estimate_median(efficiencies(*ours)), goal});
      verdicts.back().bare = bare_efficiency(records, key, ours->name);
    }
    for (const Series& series : records.of(key)) {
      if (series.role != "worst") continue;
      verdicts.push_back({key + " " + series.name, "efficiency", estimate_median(efficiencies(series)), worst_goal});
      verdicts.back().bare = bare_efficiency(records, key, series.name);
    }
    if (const Series* native = records.find(key, "ours"); native != nullptr) {
      if (const Series* columns = records.find(key, "from columns"); columns != nullptr) {
        const double most = cell.kind == Kind::threads ? column_goals.threads
                            : cell.ranks == 4          ? column_goals.mpi_4
                                                       : column_goals.mpi_8;
        verdicts.push_back(
            {key, "time from column blocks / native", estimate_median(paired_ratios(*native, *columns)), most, true});
      }
    }
  }
}

/// Ours on ranks of a kind against ScaLAPACK on as many processes. Threads are measured in another run than it, so
/// their medians are compared; processes beside it, round by round.
inline void judge_peer(const Records& records, Kind kind, int ranks, double goal, std::vector<Verdict>& verdicts) {
  std::vector<Comparison> comparisons;
  for (const EfficiencyGoals& row : efficiency_goals) {
    const Series* peer = records.find(cell_key("mpi", ranks, "f32", row.problem.name), "scalapack");
    const std::string key = cell_key(kind_name(kind), ranks, "f32", row.problem.name);
    const Series* ours = records.find(key, "ours");
    if (peer == nullptr || ours == nullptr) continue;
    const Comparison comparison = kind == Kind::mpi ? Comparison{paired_ratios(*ours, *peer), {}}
                                                    : Comparison{efficiencies(*ours), efficiencies(*peer)};
    comparisons.push_back(comparison);
    verdicts.push_back(
        {key, "times as fast as ScaLAPACK", estimate_ratio(std::span(&comparison, 1)), peer_goals.least});
  }
  if (comparisons.empty()) return;
  verdicts.push_back({std::string(kind_name(kind)) + " " + std::to_string(ranks) + " f32, mean of " +
                          std::to_string(comparisons.size()),
                      "times as fast as ScaLAPACK", estimate_ratio(comparisons), goal});
}

inline void judge_collectives(const Records& records, std::vector<Verdict>& verdicts) {
  for (const std::string_view name : collectives) {
    for (const index_t bytes : collective_bytes) {
      const std::string key = collective_key(Kind::threads, name, bytes);
      const Series* ours = records.find(key, "ours");
      const Series* peer = records.find(collective_key(Kind::mpi, name, bytes), "peer");
      if (ours == nullptr || peer == nullptr) continue;
      const Comparison comparison{efficiencies(*ours), efficiencies(*peer)};
      verdicts.push_back(
          {key, "times as fast as Open MPI", estimate_ratio(std::span(&comparison, 1)), collective_goal});
    }
  }
}

/// Nothing is timed here: what moves is counted from the schedules.
inline void judge_moved(std::vector<Verdict>& verdicts) {
  const auto exactly = [](double value) { return Estimate{value, value, value}; };
  for (const int ranks : moved_ranks) {
    for (const EfficiencyGoals& row : efficiency_goals) {
      const Problem& p = row.problem;
      const double least = least_elements_moved(p.m, p.n, p.k, ranks);
      const std::string where = std::to_string(ranks) + " ranks " + p.name;
      const Policy best = candidates(p, ranks, 1).front();
      verdicts.push_back({where + " " + best.name(), "elements moved / lower bound",
                          exactly(static_cast<double>(elements_moved(best, p, ranks)) / least), moved_goal, true});
      if (ranks == 8 && p.m == p.n && p.n == p.k) {
        const Policy cube = make_policy("splitk_rows", {2, 2, 2});
        const double ratio = static_cast<double>(elements_moved(cube, p, ranks)) / least;
        // The bound is computed in floating point.
        verdicts.push_back({where + " " + cube.name(), "elements moved / lower bound",
                            exactly(std::abs(ratio - 1) < 1e-9 ? 1 : ratio), 1, true});
      }
    }
  }
}

}  // namespace detail

/// All goals of which there are samples.
[[nodiscard]] inline std::vector<Verdict> judge(const Records& records) {
  std::vector<Verdict> verdicts;
  detail::judge_efficiencies(records, verdicts);
  for (const int ranks : {4, 8}) {
    detail::judge_peer(records, Kind::threads, ranks, peer_goals.threads, verdicts);
    detail::judge_peer(records, Kind::mpi, ranks, ranks == 4 ? peer_goals.mpi_4 : peer_goals.mpi_8, verdicts);
  }
  detail::judge_collectives(records, verdicts);
  detail::judge_moved(verdicts);
  return verdicts;
}

}  // namespace bench
