// SPDX-License-Identifier: Apache-2.0
// side_by_side_threads FILE [--full] [--only TEXT]: measures the cells whose ranks are threads.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "../support/instances.hpp"
#include "arguments.hpp"
#include "collective_cell.hpp"
#include "product_cell.hpp"

namespace {

using namespace bench;

/// One of our collectives.
class ThreadCollective final : public CollectiveWork {
 public:
  ThreadCollective(partita::ThreadComm& comm, bool scatters, index_t bytes)
      : CollectiveWork(comm.rank(), comm.size(), bytes, scatters), comm_(comm), scatters_(scatters) {
    for (int r = 0; r < comm.size(); ++r) {
      const index_t part = count_ / comm.size();
      blocks_.push_back({{0, 1}, {part * r, part * (r + 1)}});
    }
  }
  void run() override {
    const View<const float> in = partita::row_view<const float>(in_.data(), count_);
    const View<float> out = partita::row_view(out_.data(), static_cast<index_t>(out_.size()));
    if (scatters_) {
      comm_.reduce_scatter(in, out, blocks_).wait();
    } else {
      comm_.all_reduce(in, out).wait();
    }
  }

 private:
  partita::ThreadComm& comm_;
  bool scatters_;
  std::vector<Block> blocks_;
};

/// All cells of one number of ranks. Returns whether all results are right.
bool run_ranks(int ranks, AllCores& cores, const Arguments& arguments, RecordWriter& records, RecordWriter& silent) {
  ThreadTeamState state(ranks);
  bool right = true;
  partita::LaunchOptions launch;
  launch.deadline = std::chrono::minutes(30);
  partita::launch_threads(ranks, launch, [&](partita::ThreadComm comm) {
    try {
      ThreadTeam team(state, comm.rank());
      RecordWriter& writer = comm.rank() == 0 ? records : silent;
      const auto note = [&](bool equal) {
        if (team.rank() == 0) right = right && equal;
      };
      RankContext<partita::ThreadComm> context(std::move(comm));
      for (const Cell& cell : all_cells()) {
        if (cell.kind != Kind::threads || cell.ranks != ranks || !arguments.wants(cell_key(cell))) continue;
        note(run_cell(team, cores, context, cell, arguments.full, writer, [](auto, const Cell&, auto&) {}));
      }
      if (ranks != collective_ranks) return;
      for (const std::string_view name : collectives) {
        for (const index_t bytes : collective_bytes) {
          if (!arguments.wants(collective_key(Kind::threads, name, bytes))) continue;
          const auto make = [&](bool scatters, index_t size) {
            return std::make_unique<ThreadCollective>(context.comm(), scatters, size);
          };
          note(run_collective_cell(team, cores, Kind::threads, name, bytes, "ours", make, writer));
        }
      }
    } catch (const std::exception& error) {
      // The other ranks may wait in a barrier of ours, which knows nothing of failure.
      std::fprintf(stderr, "side_by_side_threads: %s\n", error.what());
      std::_Exit(1);
    }
  });
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments(argc, argv);
    AllCores cores;
    openblas_set_num_threads(1);
    RecordWriter records(arguments.output, true);
    RecordWriter silent(arguments.output, false);
    bool right = true;
    for (const int ranks : {2, 4, 8, 16}) {
      std::printf("%d ranks that are threads\n", ranks);
      right = run_ranks(ranks, cores, arguments, records, silent) && right;
    }
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "side_by_side_threads: %s\n", error.what());
    return 2;
  }
}
