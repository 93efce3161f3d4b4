// SPDX-License-Identifier: Apache-2.0
// How a rank waits: it advances all that it has begun, gives way, parks; and how it leaves when something fails.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "partita/comm/thread/group.hpp"
#include "partita/comm/thread/help.hpp"

namespace partita::detail {

inline void open_task(RankState& me, Task& task) {
  task.position = me.begun.size();
  me.begun.push_back(&task);
  task.open = true;
}

/// Takes the task out of the rank's list; a completed one gives its record back.
inline void close_task(RankState& me, Task& task, bool completed) {
  if (!task.open) return;
  task.open = false;
  me.begun.back()->position = task.position;
  me.begun[task.position] = me.begun.back();
  me.begun.pop_back();
  if (completed && task.closed != nullptr) task.closed(task);
}

/// Every wait of a rank advances all of its operations, so ranks may wait for theirs in any order.
inline void advance_all(RankState& me) {
  for (std::size_t i = 0; i < me.begun.size();) {
    Task& task = *me.begun[i];
    if (task.step(task)) {
      close_task(me, task, true);
    } else {
      ++i;
    }
  }
}

/// Gives up the panels that this rank is reading.
inline void give_up_panels(World& world, RankState& me) noexcept {
  for (const auto& [operation, owner] : me.held) {
    operation->held = false;
    world.rank(owner).borrowed.fetch_sub(1);
    world.unpark(owner);
  }
  me.held.clear();
}

/// Pre: the world has failed. Returns when no peer is inside this rank's memory and none will enter it. `unwinding`:
/// the caller's scopes are being left, so the panels that it reads are given up, and those that it has lent are
/// waited for (until the deadline).
inline void leave(World& world, RankState& me, bool unwinding) noexcept {
  if (unwinding) give_up_panels(world, me);
  const auto pause = [](int round) {
    if (round < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  };
  for (RankState& peer : world.ranks()) {
    for (int round = 0; &peer != &me && peer.touching.load(); ++round) pause(round);
  }
  if (!unwinding) return;
  const auto end = World::Clock::now() + world.deadline();
  for (int round = 0; me.borrowed.load() > 0 && World::Clock::now() < end; ++round) pause(round);
}

inline void pause_briefly() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// How long a rank that has a core of its own looks before it sleeps.
inline constexpr std::chrono::microseconds spin_time{50};
/// How often one that shares its core gives way before it sleeps.
inline constexpr int yields = 64;
/// How often it gives way to the ranks of its core before it works for those of others.
inline constexpr int far_from = 2;

/// Gives way again and again.
class GiveWay {
 public:
  /// Lets another thread have the core. False where it has kept it so long that sleeping is better: it computes, and is
  /// perhaps no rank of ours, to which the system gives a whole slice of time whenever we give way.
  bool operator()() noexcept {
    constexpr std::chrono::milliseconds long_time{2};
    std::this_thread::yield();
    const auto now = World::Clock::now();
    return now - std::exchange(last_, now) < long_time;
  }
  /// Another thing was done since.
  void begin_again() noexcept { last_ = World::Clock::now(); }

 private:
  World::Clock::time_point last_ = World::Clock::now();
};

/// Sleeps until somebody unparks this rank. False when the deadline passed first.
inline bool park(RankState& me, World::Clock::time_point deadline) {
  std::unique_lock lock(me.mutex);
  return me.wake.wait_until(lock, deadline, [&me] { return me.parked.load() == Parked::no; });
}

/// Returns once `ready()` is true; it is called again and again, and advances what it can. `blocked_by()` names a
/// departed rank (world rank) without which it never will be, or -1.
///
/// No wake-up is lost: a waiter raises `parked` and then looks again; whoever changes something changes it first and
/// then looks at `parked`. All four accesses are sequentially consistent.
///
/// False when the limit passed first.
template <class Ready, class BlockedBy>
[[nodiscard]] bool wait_until_ready(World& world, RankState& me, int self, const char* name, Parked reason, Ready ready,
                                    BlockedBy blocked_by, std::chrono::milliseconds limit) {
  if (ready()) return true;
  auto deadline = World::Clock::time_point::max();
  for (;;) {
    const auto look = [&] {
      if (ready()) return true;
      if (world.failed()) world.throw_failed();
      return false;
    };
    if (world.crowded()) {  // another rank needs this core
      GiveWay give_way;
      for (int i = 0; i < yields; ++i) {
        if (help(world, me, self, i >= far_from)) {
          --i;
          give_way.begin_again();
        } else if (!give_way()) {
          i = yields;
        }
        if (look()) return true;
      }
    } else {  // to be woken costs more than the usual wait
      for (const auto start = World::Clock::now(); World::Clock::now() - start < spin_time;) {
        for (int i = 0; i < 32; ++i) {
          pause_briefly();
          if (look()) return true;
        }
        std::this_thread::yield();
      }
    }
    if (deadline == World::Clock::time_point::max()) deadline = World::Clock::now() + limit;
    struct Unpark {
      RankState& me;
      ~Unpark() { me.parked.store(Parked::no); }
    };
    me.parked.store(reason);
    const Unpark unpark{me};
    if (ready()) return true;
    if (world.failed()) world.throw_failed();
    if (const int rank = blocked_by(); rank >= 0) {
      world.fail(rank, "left while peers wait for it in ", name);
      world.throw_failed();
    }
    if (!park(me, deadline) && !ready()) {
      if (world.failed()) world.throw_failed();
      return false;
    }
  }
}

/// As above, as member of `end`; whoever leaves by an exception first makes its memory safe.
template <class Ready, class BlockedBy>
[[nodiscard]] bool wait_or_leave(Endpoint& end, const char* name, Parked reason, Ready ready, BlockedBy blocked_by,
                                 std::chrono::milliseconds limit, bool throws) {
  World& world = *end.world;
  try {
    if (wait_until_ready(world, *end.me, end.world_rank, name, reason, ready, blocked_by, limit)) return true;
    if (!throws) return false;
    throw TimeoutError(std::string("TimeoutError: ") + name + " is not complete after " +
                       std::to_string(limit.count()) +
                       " ms; a peer has not entered it, or the deadline of the launch is too short");
  } catch (const std::exception& error) {
    world.fail(end.world_rank, error.what());
    leave(world, *end.me, true);
    throw;
  } catch (...) {
    world.fail(end.world_rank, "an exception");
    leave(world, *end.me, true);
    throw;
  }
}

/// As above until the deadline of the launch; TimeoutError beyond it.
template <class Ready, class BlockedBy>
void wait_or_leave(Endpoint& end, const char* name, Parked reason, Ready ready, BlockedBy blocked_by) {
  static_cast<void>(wait_or_leave(end, name, reason, ready, blocked_by, end.world->deadline(), true));
}

/// Completes one task of this rank, or takes it out of its list.
inline void complete(Endpoint& end, Task& task, std::uint64_t ticket) {
  const auto open = [&] { return task.ticket == ticket && task.open; };
  const auto ready = [&] {
    if (open()) advance_all(*end.me);
    return !open();
  };
  try {
    wait_or_leave(end, task.name, Parked::for_operations, ready, [&task] { return task.blocked_by(task); });
  } catch (...) {
    if (open()) close_task(*end.me, task, false);
    throw;
  }
  if (task.ticket == ticket) task.owed = false;
}

/// Gives up a task: the peers are told, and are out of this rank's buffers afterwards.
inline void abandon(Endpoint& end, Task& task, std::uint64_t ticket) noexcept {
  const bool current = task.ticket == ticket;
  if (current && task.open) close_task(*end.me, task, false);
  end.world->fail(end.world_rank, "it abandoned an operation that it had begun, ", current ? task.name : "a message");
  leave(*end.world, *end.me, std::uncaught_exceptions() > 0);
}

/// Throws PeerFailed if the world has failed.
inline void check_alive(Endpoint& end) {
  if (!end.world->failed()) return;
  leave(*end.world, *end.me, true);
  end.world->throw_failed();
}

}  // namespace partita::detail
