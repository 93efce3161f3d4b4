// SPDX-License-Identifier: Apache-2.0
// side_by_side_mpi FILE [--full] [--only TEXT], under mpirun: measures the cells whose ranks are so many processes,
// ours beside ScaLAPACK, and the collectives of MPI itself.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "../support/instances_mpi.hpp"
#include "../support/mpi_team.hpp"
#include "arguments.hpp"
#include "collective_cell.hpp"
#include "product_cell.hpp"
#include "scalapack.hpp"

namespace {

using namespace bench;

/// The peer's candidates: grids of all shapes, and the block sizes between which its best lies.
template <class T>
Entry scalapack_entry(const Cell& cell) {
  Entry entry{"scalapack", {}};
  const bool large = cell.problem.flops() > 1e11;
  for (int rows = 1; rows <= cell.ranks; ++rows) {
    if (cell.ranks % rows != 0) continue;
    const int cols = cell.ranks / rows;
    if (large && (rows == 1 || cols == 1)) continue;
    for (const int block : {32, 64, 128, 256}) {
      if (large && block == 32) continue;
      entry.candidates.push_back(
          {std::to_string(rows) + "x" + std::to_string(cols) + " blocks of " + std::to_string(block),
           [&cell, rows, cols, block] {
             return std::make_unique<ScalapackProduct<T>>(cell.problem, rows, cols, block);
           }});
    }
  }
  return entry;
}

/// A collective of MPI.
class MpiCollective final : public CollectiveWork {
 public:
  MpiCollective(const Team& team, bool scatters, index_t bytes)
      : CollectiveWork(team.rank(), team.size(), bytes, scatters), scatters_(scatters) {}

  void run() override {
    const int count = static_cast<int>(out_.size());
    if (scatters_) {
      MPI_Reduce_scatter_block(in_.data(), out_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Allreduce(in_.data(), out_.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
  }

 private:
  bool scatters_;
};

bool run_all(partita::MpiComm& comm, AllCores& cores, const Arguments& arguments) {
  const int ranks = comm.size();
  MpiTeam team;
  RecordWriter records(arguments.output, comm.rank() == 0);
  if (comm.rank() == 0) std::printf("%d ranks that are processes\n", ranks);
  bool right = true;
  RankContext<partita::MpiComm> context(std::move(comm));
  openblas_set_num_threads(1);
  const auto peers = []<class T>(T, const Cell& cell, std::vector<Entry>& entries) {
    entries.insert(entries.begin() + 1, scalapack_entry<T>(cell));
  };
  for (const Cell& cell : all_cells()) {
    if (cell.kind != Kind::mpi || cell.ranks != ranks || !arguments.wants(cell_key(cell))) continue;
    right = run_cell(team, cores, context, cell, arguments.full, records, peers) && right;
  }
  if (ranks != collective_ranks) return right;
  for (const std::string_view name : collectives) {
    for (const index_t bytes : collective_bytes) {
      if (!arguments.wants(collective_key(Kind::mpi, name, bytes))) continue;
      const auto make = [&](bool scatters, index_t size) {
        return std::make_unique<MpiCollective>(team, scatters, size);
      };
      right = run_collective_cell(team, cores, Kind::mpi, name, bytes, "peer", make, records) && right;
    }
  }
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  AllCores cores;
  bool right = true;
  partita::MpiOptions options;
  options.deadline = std::chrono::minutes(30);
  options.arena = std::size_t{1} << 30;
  partita::launch_mpi(argc, argv, options, [&](partita::MpiComm comm) {
    const Arguments arguments(argc, argv);
    right = run_all(comm, cores, arguments);
  });
  return right ? 0 : 1;
}
