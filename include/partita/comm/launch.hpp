// SPDX-License-Identifier: Apache-2.0
// Runs a function on ranks that are threads, and brings the first error home.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "partita/comm/thread.hpp"
#include "partita/comm/thread/cores.hpp"

namespace partita {

/// Whether rank r is bound to the r-th of the cores that this process may use, beginning again after the last (Linux).
/// `automatic`: where the ranks are as many as these cores, or more. Fewer ranks are left to the system, since other
/// processes of the machine may have theirs. A launch inside a bound rank finds that rank's core alone, and so do
/// threads that a library starts there: give the outer launch `never`.
enum class Pin { automatic, always, never };

struct LaunchOptions {
  /// A wait that lasts longer throws TimeoutError in its rank, and PeerFailed in the others. It must be longer than any
  /// local product, since a rank that shares its core may be running that of a peer when it is waited for.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  Pin pin = Pin::automatic;
};

namespace detail {

/// The errors of a launch in the order in which ranks left with them.
class Errors {
 public:
  void add(int rank, std::exception_ptr error, bool is_consequence) {
    const std::lock_guard lock(mutex_);
    errors_.push_back({rank, std::move(error), is_consequence});
  }
  /// Pre: all threads are joined. The error of the rank that failed first; else the first that is no PeerFailed; else
  /// the first.
  [[nodiscard]] std::exception_ptr first(int origin) const {
    auto found = std::find_if(errors_.begin(), errors_.end(), [origin](const Entry& e) { return e.rank == origin; });
    if (found == errors_.end()) {
      found = std::find_if(errors_.begin(), errors_.end(), [](const Entry& e) { return !e.is_consequence; });
    }
    if (found == errors_.end()) found = errors_.begin();
    return found == errors_.end() ? nullptr : found->error;
  }

 private:
  struct Entry {
    int rank;
    std::exception_ptr error;
    bool is_consequence;
  };
  std::mutex mutex_;
  std::vector<Entry> errors_;
};

template <class Body>
void call_body(Body& body, ThreadComm comm) {
  if constexpr (std::invocable<Body&, ThreadComm&>) {
    body(comm);
  } else {
    static_assert(std::invocable<Body&, ThreadComm>, "launch_threads calls body(ThreadComm&) or body(ThreadComm)");
    body(std::move(comm));
  }
}

/// Calls the body of a rank that is a thread and has a communicator of devices too. `comm` is the caller's to end.
template <class Body, class Comm>
void call_device_body(Body& body, Comm& comm, ThreadComm& threads) {
  if constexpr (std::invocable<Body&, Comm, ThreadComm&>) {
    body(std::move(comm), threads);
  } else if constexpr (std::invocable<Body&, Comm&>) {
    body(comm);
  } else {
    static_assert(std::invocable<Body&, Comm>,
                  "launch_devices and launch_on_device call body(Comm&), body(Comm) or body(Comm, ThreadComm&), where "
                  "Comm is NcclComm or CudaThreadComm");
    body(std::move(comm));
  }
}

/// One thread, from its communicator to its departure.
template <class Body>
void run_rank(const std::shared_ptr<Group>& group, int rank, Body& body, Errors& errors) noexcept {
  World& world = *group->world;
  RankState& me = world.rank(rank);
  me.thread = std::this_thread::get_id();
  const auto record = [&](const char* reason, bool is_consequence) {
    world.fail(rank, reason);
    errors.add(rank, std::current_exception(), is_consequence);
  };
  try {
    call_body(body, ThreadComm(std::make_shared<Endpoint>(group, rank)));
  } catch (const PeerFailed& error) {
    record(error.what(), true);
  } catch (const std::exception& error) {
    record(error.what(), false);
  } catch (...) {
    record("an exception of a type unknown to the launcher", false);
  }
  give_up_panels(world, me);
  me.lent.clear();
  world.depart(rank);
}

}  // namespace detail

/// Runs body(comm) on `ranks` threads and returns when all have ended. `body` is shared by the ranks and called with
/// ThreadComm& or, where it cannot take that, with ThreadComm.
///
/// If a rank throws, its peers leave their waits with PeerFailed, and this call throws that rank's error. A rank that
/// returns while a peer waits for something only it could deliver has failed likewise. A launch that failed throws,
/// whether or not the ranks caught what they met. Throws ArgumentError for fewer than 1 rank, and CapacityError if the
/// system has no more threads. Either way all threads are gone afterwards, and the next launch starts clean.
template <class Body>
void launch_threads(int ranks, LaunchOptions options, Body&& body) {
  if (ranks < 1) {
    throw ArgumentError("ArgumentError: launch_threads with " + std::to_string(ranks) + " ranks, needs at least 1");
  }
  if (options.deadline <= std::chrono::milliseconds(0)) {
    throw ArgumentError("ArgumentError: launch_threads with a deadline of " + std::to_string(options.deadline.count()) +
                        " ms, needs at least 1");
  }
  const std::chrono::milliseconds longest = std::chrono::hours(24 * 365);
  const bool pins = options.pin == Pin::always || (options.pin == Pin::automatic && ranks >= detail::usable_cores());
  const auto world = std::make_shared<detail::World>(ranks, std::min(options.deadline, longest), pins);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  auto group = std::make_shared<detail::Group>(world, std::move(members));
  detail::Errors errors;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&group, &body, &errors, pins, rank] {
        if (pins) detail::pin_this_thread(rank);
        detail::run_rank(group, rank, body, errors);
      });
    }
  } catch (const std::exception& error) {
    const auto rank = static_cast<int>(threads.size());
    world->fail(rank, error.what());
    const CapacityError no_thread("CapacityError: no thread for rank " + std::to_string(rank) + " of " +
                                  std::to_string(ranks) + ": " + error.what());
    errors.add(rank, std::make_exception_ptr(no_thread), false);
  }
  for (std::thread& thread : threads) thread.join();
  group.reset();
  world->join();
  const int origin = world->origin();
  if (origin < 0) return;
  if (const std::exception_ptr error = errors.first(origin)) std::rethrow_exception(error);
  world->throw_failed();
}

template <class Body>
void launch_threads(int ranks, Body&& body) {
  launch_threads(ranks, LaunchOptions{}, std::forward<Body>(body));
}

}  // namespace partita
