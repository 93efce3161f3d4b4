// SPDX-License-Identifier: Apache-2.0
// One cell of products: each role's best candidate is found and checked, then the winners compete.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../support/contest.hpp"
#include "bare.hpp"
#include "records.hpp"

namespace bench {

/// A way to do the product, made on all ranks when its turn comes.
struct Candidate {
  std::string name;
  std::function<std::unique_ptr<Work>()> make;
};

/// Those among which a role has its best. `bare`, where it is set, makes of the best one's work another that shows what
/// the machine leaves to be won.
struct Entry {
  std::string role;
  std::vector<Candidate> candidates;
  std::function<std::unique_ptr<Work>(std::unique_ptr<Work>)> bare = nullptr;
};

template <class T>
class ProductBaseline final : public Baseline {
 public:
  /// The matrices are on rank 0 alone.
  ProductBaseline(const Problem& problem, bool first) {
    if (first) product_.emplace(problem);
  }
  void run() override { product_->run(); }
  [[nodiscard]] const T* c() const { return product_ ? product_->c() : nullptr; }

 private:
  std::optional<BlasProduct<T>> product_;
};

/// A candidate and its least time so far.
struct Qualified {
  const Candidate* candidate;
  double seconds;
};

inline constexpr double long_run = 0.2;  // seconds; repeated less

inline double quick_time(Contest& contest, Work& work) {
  double seconds = contest.time(work, contest.trial_repeat());
  for (int i = 0; i < 2 && seconds < long_run; ++i)
    seconds = std::min(seconds, contest.time(work, contest.trial_repeat()));
  return seconds;
}

/// The fastest candidate, or null without one. The machine's slow times last longer than a candidate's runs, so the
/// three that seem fastest are run once more, in turn.
inline const Candidate* best_of(Contest& contest, std::vector<Qualified> qualified) {
  const auto faster = [](const Qualified& a, const Qualified& b) { return a.seconds < b.seconds; };
  std::stable_sort(qualified.begin(), qualified.end(), faster);
  if (qualified.empty()) return nullptr;
  if (qualified.size() == 1) return qualified.front().candidate;
  qualified.resize(std::min<std::size_t>(qualified.size(), 3));
  const int heats = qualified.front().seconds < long_run ? 7 : 1;
  std::vector<std::unique_ptr<Work>> works;
  for (Qualified& q : qualified) {
    works.push_back(q.candidate->make());
    works.back()->run();
    q.seconds = std::numeric_limits<double>::infinity();
  }
  for (int heat = 0; heat < heats; ++heat) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      qualified[i].seconds = std::min(qualified[i].seconds, contest.time(*works[i], contest.trial_repeat()));
    }
  }
  return std::min_element(qualified.begin(), qualified.end(), faster)->candidate;
}

/// Measures a cell. Returns whether every candidate's result equals the baseline's.
template <class T>
bool run_product_cell(Team& team, AllCores& cores, const Cell& cell, const std::vector<Entry>& entries,
                      RecordWriter& records) {
  ProductBaseline<T> baseline(cell.problem, team.rank() == 0);
  Contest contest(team, cores, baseline);
  const void* whole = team.share(baseline.c(), static_cast<std::size_t>(cell.problem.m * cell.problem.n) * sizeof(T));
  const std::string key = cell_key(cell);
  bool right = true;

  std::vector<std::unique_ptr<Work>> winners;
  std::vector<Contestant> contestants;
  for (const Entry& entry : entries) {
    std::vector<Qualified> qualified;
    for (const Candidate& candidate : entry.candidates) {
      const std::unique_ptr<Work> work = candidate.make();
      work->run();
      const bool equal = team.least(work->equals(whole) ? 1 : 0) > 0;
      if (!equal) records.wrong(key, entry.role, candidate.name);
      right = right && equal;
      qualified.push_back({&candidate, entry.candidates.size() > 1 ? quick_time(contest, *work) : 0});
    }
    const Candidate* best = best_of(contest, std::move(qualified));
    if (best == nullptr) continue;
    winners.push_back(best->make());
    contestants.push_back({entry.role, best->name, winners.back().get()});
    if (!entry.bare) continue;
    winners.push_back(entry.bare(best->make()));
    contestants.push_back({"bare", best->name, winners.back().get()});
  }
  records.samples(key, contest.compete(contestants));
  if (team.rank() == 0) {
    std::printf("  %s\n", key.c_str());
    std::fflush(stdout);
  }
  return right;
}

/// The entries of ours in a cell: the best policy, and what the goals name beside it. With `every`, each policy is an
/// entry of its own.
template <class T, class Comm>
[[nodiscard]] std::vector<Entry> own_entries(RankContext<Comm>& context, const Cell& cell, bool every) {
  const auto native = [&context, &cell](const Policy& policy) {
    return Candidate{policy.name(),
                     [&context, &cell, policy] { return make_product<T>(context, policy, cell.problem); }};
  };
  std::vector<Entry> entries{{"ours", {}}};
  const std::size_t most = cell.problem.flops() > 1e11 ? 5 : 8;
  for (const Policy& policy : contenders(cell.problem, cell.ranks, most)) {
    entries.front().candidates.push_back(native(policy));
  }
  if (cell.kind == Kind::threads && cell.ranks == worst_ranks && !cell.fp64 &&
      contains(worst_problems, cell.problem.name)) {
    for (const std::string_view name : worst_policies) {
      entries.push_back({"worst", {native(make_policy(name, {2, 2, 2}))}});
    }
  }
  if (!cell.fp64 && contains(column_problems, cell.problem.name) && (cell.ranks == 4 || cell.kind == Kind::mpi)) {
    Entry entry{"from columns", {native(make_policy("columns", {cell.ranks}))}};
    for (const Policy& policy : candidates(cell.problem, cell.ranks, 3)) {
      for (const FromColumns how : {FromColumns::across, FromColumns::redistributed}) {
        entry.candidates.push_back({(how == FromColumns::across ? "across to " : "redistributed to ") + policy.name(),
                                    [&context, &cell, policy, how] {
                                      return make_product_from_columns<T>(context, policy, cell.problem, how);
                                    }});
      }
    }
    entries.push_back(std::move(entry));
  }
  if (every) {
    for (const Policy& policy : policies_for(cell.ranks, true)) entries.push_back({"policy", {native(policy)}});
  }
  return entries;
}

/// Measures a cell with the ranks of a context; `peers` adds what competes with them.
template <class Comm, class Peers>
bool run_cell(Team& team, AllCores& cores, RankContext<Comm>& context, const Cell& cell, bool every,
              RecordWriter& records, const Peers& peers) {
  const auto run = [&]<class T>(T) {
    std::vector<Entry> entries = own_entries<T>(context, cell, every);
    for (Entry& entry : entries) {
      if (cell.kind != Kind::threads || (entry.role != "ours" && entry.role != "worst")) continue;
      entry.bare = [&](std::unique_ptr<Work> product) {
        return std::make_unique<BareProducts>(team, cores.count(), std::move(product));
      };
    }
    peers(T{}, cell, entries);
    return run_product_cell<T>(team, cores, cell, entries, records);
  };
  return cell.fp64 ? run(double{}) : run(float{});
}

}  // namespace bench
