// SPDX-License-Identifier: Apache-2.0
// MPI's initialisation, where a program leaves it to us.
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>

#include "partita/comm/mpi/library.hpp"

namespace partita {

/// How many threads may call MPI, as MPI_Init_thread has promised.
enum class MpiThreads { single, funneled, serialized, multiple };

[[nodiscard]] constexpr const char* to_string(MpiThreads level) noexcept {
  constexpr const char* names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<int>(level)];
}

namespace detail {

/// One line on stderr in one call, so that lines of several ranks stay whole.
inline void say_failed(int rank, const std::string& reason) noexcept {
  const std::string line = "partita: rank " + std::to_string(rank) + " failed: " + reason + "\n";
  const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

/// Set where this process ends because the job has failed; MPI_Abort itself may call exit().
inline bool mpi_ending = false;

/// MPI_Abort, which some libraries do not come back from while a peer is stopped; then the alarm ends this process, and
/// the process manager the others.
[[noreturn]] inline void abort_job(MPI_Comm comm) noexcept {
  mpi_ending = true;
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(3);
  MPI_Abort(comm, 1);
  std::_Exit(1);
}

/// A rank that calls exit() leaves its peers in their collectives.
inline void abort_at_exit() noexcept {
  if (mpi_ending || !mpi_usable()) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  say_failed(rank, "it called exit() before MPI was finalised");
  abort_job(MPI_COMM_WORLD);
}

}  // namespace detail

/// Initialises MPI unless somebody has, and then finalises it at the end of its life. An MpiComm belongs to the thread
/// that made it, so `funneled` suffices for a program with one. Where this object has initialised MPI, errors come
/// back as codes, and a rank that calls exit() ends the job. Errors: ArgumentError after MPI_Finalize.
class MpiRuntime {
 public:
  explicit MpiRuntime(int* argc = nullptr, char*** argv = nullptr, MpiThreads wanted = MpiThreads::funneled) {
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized != 0) throw ArgumentError("ArgumentError: MpiRuntime after MPI_Finalize: MPI begins only once");
    if (initialized == 0) {
      constexpr int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
      int provided = 0;
      detail::mpi_check(MPI_Init_thread(argc, argv, levels[static_cast<int>(wanted)], &provided), "MPI_Init_thread");
      owns_ = true;
      // Some libraries report errors of requests on these two, whatever communicator they belong to.
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
      std::atexit([] { detail::abort_at_exit(); });
    }
  }
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  /// Collective, but for an exception that unwinds: the ranks that have not failed would be waited for.
  ~MpiRuntime() {
    if (owns_ && detail::mpi_usable() && std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  /// The level that MPI has given, whoever initialised it.
  [[nodiscard]] MpiThreads threads() const {
    int provided = MPI_THREAD_SINGLE;
    detail::mpi_check(MPI_Query_thread(&provided), "MPI_Query_thread");
    if (provided >= MPI_THREAD_MULTIPLE) return MpiThreads::multiple;
    if (provided >= MPI_THREAD_SERIALIZED) return MpiThreads::serialized;
    return provided >= MPI_THREAD_FUNNELED ? MpiThreads::funneled : MpiThreads::single;
  }
  /// Whether this object has initialised MPI.
  [[nodiscard]] bool owns() const noexcept { return owns_; }

 private:
  bool owns_ = false;
};

}  // namespace partita
