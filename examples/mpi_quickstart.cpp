// SPDX-License-Identifier: Apache-2.0
// One body, two launchers: ranks are threads of this process, or, under mpirun, MPI processes.
//   example_mpi_quickstart              4 threads
//   mpirun -n 6 example_mpi_quickstart  6 processes, on as many hosts as mpirun is told

#include <cstdio>
#include <cstdlib>

#include "partita/comm/mpi.hpp"
#include "partita/partita.hpp"

namespace {

/// What a rank does; `Comm` is all that differs.
template <class Comm>
void multiply(Comm& comm) {
  partita::Context<partita::EigenBackend, Comm> ctx(std::move(comm));
  const auto grid = partita::make_grid<partita::Summa2D<>>(ctx, ctx.size() / 2, 2);
  const auto a = partita::random_uniform<float, partita::Summa2D<>>(grid, {1000, 700}, /*seed=*/1);
  const auto b = partita::random_uniform<float, partita::Summa2D<>>(grid, {700, 500}, /*seed=*/2);
  const auto c = partita::matmul(a, b);
  const auto whole = partita::gather(c);  // the same on every rank, whatever the ranks are
  if (ctx.rank() == 0) std::printf("%d ranks, C(999, 499) = %.4f\n", ctx.size(), static_cast<double>(whole(999, 499)));
}

/// Whether mpirun of Open MPI, MPICH or Slurm has started this process.
bool under_mpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr ||
         std::getenv("PMIX_RANK") != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (under_mpirun()) return partita::launch_mpi(argc, argv, multiply<partita::MpiComm>);
  partita::launch_threads(4, multiply<partita::ThreadComm>);
}
