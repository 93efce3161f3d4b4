// SPDX-License-Identifier: Apache-2.0
// Runs a function on ranks that are MPI processes; a rank that fails ends the job, with one line that names it.
#pragma once

#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "partita/comm/mpi/group.hpp"
#include "partita/comm/mpi/runtime.hpp"

namespace partita {

class MpiComm;

namespace detail {

/// Ends the job. The rank that failed says so; the others leave it the time to, and speak in its place if it does not.
[[noreturn]] inline void end_failed_job(MpiWorld& world, const std::string& own_reason) noexcept {
  mpi_ending = true;
  const bool own = world.origin() == world.rank();
  const auto grace = own ? std::chrono::milliseconds(300) : std::chrono::milliseconds(3000);
  if (own) say_failed(world.rank(), own_reason.empty() ? world.reason() : own_reason);
  const auto until = MpiWorld::Clock::now() + grace;
  while (MpiWorld::Clock::now() < until) {  // peers unwind; MPI delivers the notices
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world.comm(), &flag, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!own) say_failed(world.origin(), world.reason());
  abort_job(world.comm());
}

template <class Comm, class Body>
void run_mpi_as(MPI_Comm user, const MpiOptions& options, Body& body) {
  std::shared_ptr<MpiWorld> world;
  std::string reason;
  try {
    world = make_world(user, options);
    Comm comm(world);
    if constexpr (std::invocable<Body&, Comm&>) {
      body(comm);
    } else {
      static_assert(std::invocable<Body&, Comm>, "run_mpi calls body(MpiComm&) or body(MpiComm)");
      body(std::move(comm));
    }
  } catch (const std::exception& error) {
    reason = error.what();
  } catch (...) {
    reason = "an exception of a type unknown to the launcher";
  }
  if (world == nullptr) {  // nothing is shared yet, so nobody can be told but by MPI
    int rank = 0;
    if (mpi_usable()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    say_failed(rank, reason);
    if (mpi_usable()) abort_job(MPI_COMM_WORLD);
    std::_Exit(1);
  }
  if (!reason.empty()) world->fail(reason);
  if (!world->failed()) world->close();
  if (world->failed()) end_failed_job(*world, reason);
}

}  // namespace detail

/// Runs body(comm) on every rank of `user`, which MPI must be initialised for, and returns when all have ended.
/// `body` is called with MpiComm& or, where it cannot take that, with MpiComm; it must leave no tensor behind.
///
/// If a rank throws, it prints one line that names it and the error, its peers leave their waits with PeerFailed, and
/// the job ends by MPI_Abort with exit code 1. The same if a rank has called abort(), whether or not the ranks caught
/// what they met, and if peers have waited beyond the deadline for a rank that returned.
template <class Body, class Comm = MpiComm>
void run_mpi(MPI_Comm user, const MpiOptions& options, Body&& body) {
  detail::run_mpi_as<Comm>(user, options, body);
}

/// The same for all processes that mpirun has started; initialises MPI if need be, and then finalises it. Under no
/// mpirun, one rank. Returns 0, as main's result.
template <class Body>
int launch_mpi(int argc, char** argv, const MpiOptions& options, Body&& body) {
  const MpiRuntime runtime(&argc, &argv);
  run_mpi(MPI_COMM_WORLD, options, std::forward<Body>(body));
  return 0;
}
template <class Body>
int launch_mpi(int argc, char** argv, Body&& body) {
  return launch_mpi(argc, argv, MpiOptions{}, std::forward<Body>(body));
}

}  // namespace partita
