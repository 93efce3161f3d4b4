// SPDX-License-Identifier: Apache-2.0
// Ranks that are MPI processes, in a build with MATMUL_FILES_MPI.
#pragma once

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>

#include "launcher.hpp"
#include "partita/comm/mpi.hpp"
#include "product.hpp"

namespace matmul_files {

MATMUL_FILES_PRODUCTS(extern, HostRank<MpiComm>);

/// Whether mpirun of Open MPI, MPICH or Slurm has started this process.
inline bool under_mpirun() { return launched_processes() > 0 || std::getenv("PMIX_RANK") != nullptr; }

/// Runs body(context) on the processes that mpirun has started, and returns the result of body, an exit status.
/// An error that all ranks throw alike is told once, by `fail(1, text)` on rank 0, and the status is then 1. Any other
/// ends the job, with a line that names the rank which failed.
template <class Fail, class Body>
int on_processes(int argc, char** argv, const Fail& fail, const Body& body) {
  int status = 1;
  MpiOptions options;
  options.deadline = std::chrono::hours(24);  // a rank may wait long for another one's product
  launch_mpi(argc, argv, options, [&](MpiComm comm) {
    RankContext<MpiComm> context(CountingComm(std::move(comm)));
    const auto tell = [&](const std::exception& error) {
      if (context.rank() == 0) fail(1, error.what());
    };
    try {
      status = body(context);
    } catch (const FileError& error) {
      tell(error);
    } catch (const ShapeError& error) {
      tell(error);
    } catch (const JobError& error) {
      tell(error);
    }
  });
  return status;
}

}  // namespace matmul_files
