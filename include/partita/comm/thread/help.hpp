// SPDX-License-Identifier: Apache-2.0
// How ranks that share cores work for each other: a rank that waits runs what the others have offered.
#pragma once

#include "partita/comm/thread/world.hpp"

namespace partita::detail {

/// Runs a piece of what rank r has offered, if it can be run now. Pre: the caller holds the turn of its core. Memory of
/// other ranks is touched: see World.
inline bool take_offer(World& world, RankState& me, int r) noexcept {
  Offer& offer = world.rank(r).offer;
  auto open = Offer::State::open;
  if (offer.state.load() != open || !offer.state.compare_exchange_strong(open, Offer::State::taken)) return false;
  me.touching.store(true);
  const bool runs = !world.failed() && offer.ready(offer.work);
  bool done = false;
  if (runs) {
    try {
      done = offer.run(offer.work);
    } catch (...) {
      offer.error = std::current_exception();
      done = true;
    }
  }
  me.touching.store(false);
  offer.state.store(done ? Offer::State::done : Offer::State::open);
  world.unpark(r, done ? Parked::no : Parked::for_offer);
  return runs;
}

/// Runs a piece of another rank's offer: of one that shares the core; or, where `far` and these offer nothing, of any.
/// False if there was nothing to do.
inline bool help(World& world, RankState& me, int self, bool far) noexcept {
  if (!world.shares_cores()) return false;
  const std::unique_lock turn = world.try_turn(self);
  if (!turn) return false;
  const int size = world.size();
  const int cores = world.cores();
  bool some_are_near = false;
  for (int r = self % cores; r < size; r += cores) {
    if (r == self || world.rank(r).offer.state.load() != Offer::State::open) continue;
    if (take_offer(world, me, r)) return true;
    some_are_near = true;
  }
  if (some_are_near || !far) return false;
  for (int i = 1; i < size; ++i) {
    const int r = (self + i) % size;
    if (world.rank(r).offer.state.load() == Offer::State::open) return take_offer(world, me, r);
  }
  return false;
}

}  // namespace partita::detail
