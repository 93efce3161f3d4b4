// SPDX-License-Identifier: Apache-2.0
// How a rank has local work run by whichever thread has a core to spare.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "partita/comm/thread/wait.hpp"

namespace partita::detail {

/// Takes the rank's offer back; waits while a peer runs a piece of it. True if all of it has been run.
inline bool withdraw(RankState& me) noexcept {
  Offer& offer = me.offer;
  for (int i = 0;; ++i) {
    auto open = Offer::State::open;
    if (offer.state.load() == Offer::State::done) break;
    if (offer.state.compare_exchange_strong(open, Offer::State::none)) return false;
    if (i < yields) {
      std::this_thread::yield();
      continue;
    }
    me.parked.store(Parked::for_offer);
    if (offer.state.load() == Offer::State::taken) park(me, World::Clock::now() + std::chrono::hours(1));
    me.parked.store(Parked::no);
  }
  offer.state.store(Offer::State::none);
  return true;
}

/// Sleeps a little, unless something happens before.
inline void doze(RankState& me, Parked reason) {
  me.parked.store(reason);
  if (me.offer.state.load() != Offer::State::done) park(me, World::Clock::now() + std::chrono::milliseconds(1));
  me.parked.store(Parked::no);
}

/// Lets all ranks, this one among them, run what it offers, until all has been run; or until no peer runs it, and this
/// rank could not, for a while.
inline void await_offer(Endpoint& end) {
  World& world = *end.world;
  RankState& me = *end.me;
  GiveWay give_way;
  int rounds_taken = 0;
  for (int i = 0; i < yields && !world.failed();) {
    bool ran = false;
    if (const std::unique_lock turn = world.try_turn(end.world_rank)) ran = take_offer(world, me, end.world_rank);
    if (me.offer.state.load() == Offer::State::done) return;
    advance_all(me);
    if (ran || help(world, me, end.world_rank, i >= far_from)) {
      give_way.begin_again();
      continue;
    }
    const bool taken = me.offer.state.load() == Offer::State::taken;
    ++(taken ? rounds_taken : i);
    if (!give_way() || rounds_taken > yields) {
      doze(me, taken ? Parked::for_offer : Parked::for_operations);
      give_way.begin_again();
    }
  }
}

/// See SharesWork in comm/concepts.hpp.
inline bool share_work(Endpoint& end, bool (*ready)(void*), bool (*run)(void*), void* work) {
  World& world = *end.world;
  if (!world.shares_cores()) return false;
  RankState& me = *end.me;
  Offer& offer = me.offer;
  offer.ready = ready;
  offer.run = run;
  offer.work = work;
  offer.error = nullptr;
  offer.state.store(Offer::State::open);
  try {
    await_offer(end);
  } catch (const std::exception& error) {
    withdraw(me);
    world.fail(end.world_rank, error.what());
    leave(world, me, true);
    throw;
  } catch (...) {
    withdraw(me);
    world.fail(end.world_rank, "an exception");
    leave(world, me, true);
    throw;
  }
  if (!withdraw(me)) return false;
  if (const std::exception_ptr error = std::exchange(offer.error, nullptr)) std::rethrow_exception(error);
  return true;
}

}  // namespace partita::detail
