# SPDX-License-Identifier: Apache-2.0
# PARTITA_MPI=ON: partita::mpi, the library with the MPI that CMake finds (MPI_CXX_COMPILER chooses among several).
# comm/mpi.hpp needs nothing else; any target that includes it may link its own MPI instead.

option(PARTITA_MPI "Find MPI and provide partita::mpi" OFF)

if(PARTITA_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
  add_library(partita_mpi INTERFACE)
  add_library(partita::mpi ALIAS partita_mpi)
  set_target_properties(partita_mpi PROPERTIES EXPORT_NAME mpi)
  target_link_libraries(partita_mpi INTERFACE partita MPI::MPI_CXX)
endif()
