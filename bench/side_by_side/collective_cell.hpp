// SPDX-License-Identifier: Apache-2.0
// The cells of collectives: their baseline copies on all cores.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../support/contest.hpp"
#include "records.hpp"

namespace bench {

/// Each core copies from one buffer of its own to another, again and again. All together are as large as what the ranks
/// of a collective read and write, so that they lie in the same cache or in none. (With fewer bytes one copy of 1 MiB
/// just fits a cache, and is fast or slow by the luck of its pages.)
class CopyBaseline final : public Baseline {
 public:
  CopyBaseline(index_t bytes, bool first)
      : bytes_(static_cast<std::size_t>(std::max(bytes, collective_ranks * bytes / core_count()))) {
    if (!first) return;
    for (int i = 0; i < 2 * core_count(); ++i) buffers_.emplace_back(bytes_, static_cast<unsigned char>(i));
  }

  void run() override {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < buffers_.size(); i += 2) {
      threads.emplace_back([this, i] {
        for (std::size_t done = 0; done < total; done += bytes_) {
          std::memcpy(buffers_[i].data(), buffers_[i + 1].data(), bytes_);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static constexpr std::size_t total = std::size_t{64} << 20;  // in one run, for threads that are new in each
  std::size_t bytes_;
  std::vector<std::vector<unsigned char>> buffers_;
};

[[nodiscard]] inline std::string size_text(index_t bytes) {
  return bytes >= (1 << 20) ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}
[[nodiscard]] inline std::string collective_key(Kind kind, std::string_view name, index_t bytes) {
  return cell_key(kind_name(kind), collective_ranks, "f32", std::string(name) + " " + size_text(bytes));
}

/// A collective over floats whose every input element is the rank + 1, so that each sum is known.
class CollectiveWork : public Work {
 public:
  CollectiveWork(int rank, int size, index_t bytes, bool scatters)
      : count_(bytes / 4),
        sum_(static_cast<float>(size * (size + 1) / 2)),
        in_(static_cast<std::size_t>(count_), static_cast<float>(rank + 1)),
        out_(static_cast<std::size_t>(scatters ? count_ / size : count_)) {}

  [[nodiscard]] bool equals(const void*) const override {
    return std::all_of(out_.begin(), out_.end(), [this](float x) { return x == sum_; });
  }

 protected:
  index_t count_;
  float sum_;
  std::vector<float> in_, out_;
};

/// Measures one collective of one size; `make(scatters, bytes)` gives the work. Returns whether the sums are right.
template <class Make>
bool run_collective_cell(Team& team, AllCores& cores, Kind kind, std::string_view name, index_t bytes,
                         const std::string& role, const Make& make, RecordWriter& records) {
  CopyBaseline baseline(bytes, team.rank() == 0);
  Contest contest(team, cores, baseline);
  const std::unique_ptr<Work> work = make(name == "reduce_scatter", bytes);
  const std::string key = collective_key(kind, name, bytes);
  records.samples(key, contest.compete({{role, std::string(name), work.get()}}));
  const bool right = team.least(work->equals(nullptr) ? 1 : 0) > 0;
  if (!right) records.wrong(key, role, std::string(name));
  return right;
}

}  // namespace bench
