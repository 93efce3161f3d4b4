// SPDX-License-Identifier: Apache-2.0
// The MPI library without its C++ bindings, its error codes as errors, and its communicators counted.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>

#include "partita/base/error.hpp"

namespace partita {

/// MPI refused a call. The text is MPI's own.
struct MpiError : Error {
  using Error::Error;
};

namespace detail {

[[nodiscard]] inline std::string mpi_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return "error " + std::to_string(code);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

inline void mpi_check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw MpiError(std::string("MpiError: ") + call + ": " + mpi_text(code));
}

/// Whether MPI can be called: after its initialisation, before its finalisation.
[[nodiscard]] inline bool mpi_usable() noexcept {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

/// Communicators that this process has made and not freed.
inline int mpi_live_communicators = 0;

/// Takes a communicator that MPI has just made: its errors come back as codes.
inline MPI_Comm mpi_own(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return comm;
  ++mpi_live_communicators;
  mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

/// Collective over the communicator.
inline void mpi_free(MPI_Comm& comm) noexcept {
  if (comm == MPI_COMM_NULL) return;
  MPI_Comm_free(&comm);
  comm = MPI_COMM_NULL;
  --mpi_live_communicators;
}

}  // namespace detail
}  // namespace partita
