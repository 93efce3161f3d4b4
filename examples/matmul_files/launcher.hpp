// SPDX-License-Identifier: Apache-2.0
// Which of how many processes of mpirun this one is, as its environment tells without MPI.
#pragma once

#include <cstdlib>
#include <string>

namespace matmul_files {

/// The first of the variables that is set, as a number; `otherwise` where none is.
inline int first_set(const char* open_mpi, const char* mpich, int otherwise) {
  for (const char* name : {open_mpi, mpich}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

/// 0 where no mpirun has started this process.
inline int launched_processes() { return first_set("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 0); }
inline int launched_rank() { return first_set("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0); }

/// Why a program whose ranks are threads does not run as several processes, each of which would do all of the work;
/// empty where it is one. `asked`: what ranks were to be; `remedy`: what would work instead.
inline std::string threads_refused(const std::string& asked, const std::string& remedy) {
  const int processes = launched_processes();
  if (processes <= 1) return {};
  return asked + ", and mpirun has started " + std::to_string(processes) +
         " processes, each of which would do the whole job: " + remedy + ", or start it without mpirun";
}

}  // namespace matmul_files
