// SPDX-License-Identifier: Apache-2.0
// Google Benchmark among ranks: under mpirun they are its processes, otherwise threads. Iterations are fixed, since
// ranks that each chose their number by time would wait for each other for ever; an iteration lasts from the first
// rank's start to the last one's end.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "all_cores.hpp"
#include "backend.hpp"
#include "contest.hpp"
#include "statistics.hpp"
#include "team.hpp"
#if BENCH_MPI
#include "mpi_team.hpp"
#endif

namespace bench {

/// A rank of a benchmark: it counts what it moves.
template <class Comm>
using CountedContext = RankContext<partita::CountingComm<Comm>>;

/// One rank's part in a benchmark.
template <class Comm>
struct Place {
  Team& team;
  CountedContext<Comm>& context;
  AllCores& cores;
  benchmark::State* state;  // null on a rank that has none of its own
  partita::index_t iterations;

  /// Runs f in all iterations, and hands the times to the state. Returns their median, in seconds.
  template <class F>
  double time(const F& f) {
    std::vector<double> times;
    const auto once = [&] {
      team.sync();
      const double start = now();
      f();
      const double end = now();
      times.push_back(team.greatest(end) - team.least(start));
    };
    f();  // memory is touched, communicators are made
    if (state != nullptr) {
      for ([[maybe_unused]] auto unused : *state) {
        once();
        state->SetIterationTime(times.back());
      }
    } else {
      for (partita::index_t i = 0; i < iterations; ++i) once();
    }
    return median(times);
  }

  /// What the busiest rank moves in one call of f.
  template <class F>
  partita::Traffic moved(const F& f) {
    const partita::Traffic before = context.comm().traffic();
    f();
    const partita::Traffic own = context.comm().traffic() - before;
    const auto most = [this](partita::index_t x) {
      return static_cast<partita::index_t>(team.greatest(static_cast<double>(x)));
    };
    return {most(own.messages), most(own.elements), most(own.bytes)};
  }

  void counter(const char* name, double value) {
    if (state != nullptr) state->counters[name] = value;
  }
  void fail(const std::string& why) {
    if (state != nullptr) state->SkipWithError(why.c_str());
  }
};

template <class Comm>
class Host;

template <>
class Host<partita::ThreadComm> {
 public:
  static constexpr const char* kind = "threads";
  [[nodiscard]] std::vector<int> rank_counts() const { return {2, 4, 8}; }

  template <class Body>
  void run(benchmark::State& state, int ranks, const Body& body) {
    ThreadTeamState shared(ranks);
    partita::LaunchOptions launch;
    launch.deadline = std::chrono::minutes(30);
    partita::launch_threads(ranks, launch, [&](partita::ThreadComm comm) {
      try {
        ThreadTeam team(shared, comm.rank());
        benchmark::State* own = comm.rank() == 0 ? &state : nullptr;
        CountedContext<partita::ThreadComm> context(partita::CountingComm(std::move(comm)));
        Place<partita::ThreadComm> place{team, context, cores_, own, state.max_iterations};
        body(place);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());  // other ranks may wait in a barrier that knows no failure
        std::_Exit(1);
      }
    });
  }

 private:
  AllCores cores_;
};

#if BENCH_MPI
template <>
class Host<partita::MpiComm> {
 public:
  static constexpr const char* kind = "mpi";
  Host(partita::MpiComm& comm, AllCores& cores) : comm_(comm), cores_(cores) {}
  [[nodiscard]] std::vector<int> rank_counts() const { return {comm_.size()}; }

  template <class Body>
  void run(benchmark::State& state, int, const Body& body) {
    MpiTeam team;
    CountedContext<partita::MpiComm> context(partita::CountingComm(*comm_.split(0, comm_.rank())));
    Place<partita::MpiComm> place{team, context, cores_, &state, state.max_iterations};
    body(place);
  }

 private:
  partita::MpiComm& comm_;
  AllCores& cores_;
};

/// The reporter of all ranks but the first.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};
#endif

/// The main program: enroll(host) registers the benchmarks, which are then run.
template <class Enroll>
int run_benchmarks(int argc, char** argv, const Enroll& enroll) {
#if BENCH_MPI
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr) {
    AllCores cores;
    partita::MpiOptions options;
    options.deadline = std::chrono::minutes(30);
    options.arena = std::size_t{1} << 30;
    return partita::launch_mpi(argc, argv, options, [&](partita::MpiComm& comm) {
      std::vector<char*> kept;  // one rank writes the file that is asked for
      for (int i = 0; i < argc; ++i) {
        if (comm.rank() == 0 || !std::string_view(argv[i]).starts_with("--benchmark_out")) kept.push_back(argv[i]);
      }
      int count = static_cast<int>(kept.size());
      benchmark::Initialize(&count, kept.data());
      Host<partita::MpiComm> host(comm, cores);
      enroll(host);
      Silent silent;
      if (comm.rank() == 0) {
        benchmark::RunSpecifiedBenchmarks();
      } else {
        benchmark::RunSpecifiedBenchmarks(&silent);
      }
    });
  }
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Host<partita::ThreadComm> host;
  enroll(host);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

/// As many iterations as take about a tenth of a second at 100 GFLOP/s, within bounds.
[[nodiscard]] inline int iterations_for(double flops) { return static_cast<int>(std::clamp(1e10 / flops, 5.0, 200.0)); }

/// Registers body(place) under "name/kind:ranks".
template <class Comm, class Body>
void enroll_benchmark(Host<Comm>& host, const std::string& name, int ranks, int iterations, Body body) {
  const std::string full = name + "/" + Host<Comm>::kind + ":" + std::to_string(ranks);
  benchmark::RegisterBenchmark(full.c_str(),
                               [&host, ranks, body](benchmark::State& state) { host.run(state, ranks, body); })
      ->Iterations(iterations)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace bench
