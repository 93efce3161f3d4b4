// SPDX-License-Identifier: Apache-2.0
// How contestants are timed: in turn, each between two runs of the baseline.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "all_cores.hpp"
#include "blas.hpp"
#include "product.hpp"
#include "team.hpp"

namespace bench {

struct Contestant {
  std::string role;  // ours, peer, ...
  std::string name;
  Work* work;
};

/// Seconds of one run of a contestant, and of the baseline before and after it.
struct Sample {
  double seconds = 0;
  double before = 0;
  double after = 0;

  [[nodiscard]] double disturbance() const { return std::abs(before - after) / std::min(before, after); }
};

/// Runs the baseline on all cores.
class Baseline {
 public:
  virtual ~Baseline() = default;
  /// Called on rank 0 alone.
  virtual void run() = 0;
};

/// The samples of one contestant, one for each round.
struct Series {
  std::string role;
  std::string name;
  std::vector<Sample> samples;
};

class Contest {
 public:
  static constexpr int rounds = 7;
  static constexpr int tries_per_round = 3;
  static constexpr double most_disturbance = 0.10;
  /// A sample lasts so long at least: what the first run pays for, woken ranks and cold caches, is not what repeated
  /// products cost.
  static constexpr double sample_seconds = 0.024;
  static constexpr double trial_seconds = 0.008;

  Contest(Team& team, AllCores& cores, Baseline& baseline) : team_(team), cores_(cores), baseline_(baseline) {
    const double once = time_baseline(1);
    const double seconds = std::min(once, time_baseline(repeat_for(once)));
    repeat_ = repeat_for(seconds);
    trial_repeat_ = repeat_for(seconds, trial_seconds);
  }

  /// Runs that are timed together to find out whether a candidate is fast.
  [[nodiscard]] int trial_repeat() const noexcept { return trial_repeat_; }

  /// Seconds of one run, of `repeat` between two meetings of the ranks, from the first rank's start to the last
  /// one's end.
  [[nodiscard]] double time(Work& work, int repeat) {
    team_.sync();
    const double start = now();
    for (int i = 0; i < repeat; ++i) work.run();
    const double end = now();
    return (team_.greatest(end) - team_.least(start)) / repeat;
  }

  /// As many rounds as are asked for. A sample whose two baselines differ too much is taken again, a few times.
  [[nodiscard]] std::vector<Series> compete(const std::vector<Contestant>& contestants, int round_count = rounds) {
    std::vector<Series> series;
    std::vector<int> repeats;
    for (const Contestant& contestant : contestants) {
      contestant.work->run();
      repeats.push_back(repeat_for(time(*contestant.work, repeat_for(time(*contestant.work, 1)))));
      series.push_back({contestant.role, contestant.name, {}});
    }
    double before = time_baseline(repeat_);
    for (int round = 0; round < round_count; ++round) {
      for (std::size_t i = 0; i < contestants.size(); ++i) {
        Sample best;
        for (int attempt = 0; attempt < tries_per_round; ++attempt) {
          Sample sample{time(*contestants[i].work, repeats[i]), before, time_baseline(repeat_)};
          before = sample.after;
          if (attempt == 0 || sample.disturbance() < best.disturbance()) best = sample;
          if (best.disturbance() <= most_disturbance) break;
        }
        series[i].samples.push_back(best);
      }
    }
    return series;
  }

  /// Seconds of one run of the baseline, while all ranks but the first sleep.
  [[nodiscard]] double time_baseline(int repeat) {
    double seconds = 0;
    team_.alone([&] {
      cores_.run([&] {
        openblas_set_num_threads(core_count());
        const double start = now();
        for (int i = 0; i < repeat; ++i) baseline_.run();
        seconds = (now() - start) / repeat;
        openblas_set_num_threads(1);
      });
      // OpenBLAS's threads look for work for a while before they sleep: 2^26 cycles, if the environment says nothing.
      static const bool short_timeout = std::getenv("OPENBLAS_THREAD_TIMEOUT") != nullptr;
      std::this_thread::sleep_for(std::chrono::milliseconds(short_timeout ? 2 : 40));
    });
    return team_.from_first(seconds);
  }

 private:
  static int repeat_for(double seconds, double whole = sample_seconds) {
    return std::max(1, static_cast<int>(std::ceil(whole / std::max(seconds, 1e-7))));
  }

  Team& team_;
  AllCores& cores_;
  Baseline& baseline_;
  int repeat_ = 1;
  int trial_repeat_ = 1;
};

}  // namespace bench
