// SPDX-License-Identifier: Apache-2.0
// The life of a collective: begun in a free slot of the ring, posted to the peers, done, complete.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "partita/comm/thread/wait.hpp"

namespace partita::detail {

/// Wakes those for whom the last change to the operation may matter. Others who merely wait for room in the ring are
/// woken when the slot is free.
struct Wake {
  bool all = false;
  bool root = false;
  bool freed = false;

  void operator()(Endpoint& end, int root_member) const noexcept {
    if (!all && !root && !freed) return;
    for (int m = 0; m < end.group->size; ++m) {
      if (m == end.rank) continue;
      if (all || (root && m == root_member)) {
        end.world->unpark(end.group->world_rank(m));
      } else if (freed) {
        end.world->unpark(end.group->world_rank(m), Parked::for_slot);
      }
    }
  }
};

/// This member touches no memory of others any more in this operation.
inline void finish(Operation& o) noexcept {
  Endpoint& end = *o.endpoint;
  const Post& post = o.post;
  o.stage.store(2 * o.ticket + 2);
  const bool last = end.group->slot(o.ticket).done.fetch_add(1) + 1 == end.group->full(o.ticket);
  Wake wake;
  wake.freed = last;
  switch (post.kind) {
    case Kind::broadcast:
    case Kind::panel:
      wake.root = last;
      break;
    case Kind::lending:
      wake.all = last;
      break;
    case Kind::reduce:
      wake.all = end.rank == post.root;
      break;
    default:
      wake.all = last && o.then_done;
  }
  if (last && post.inspection != nullptr) wake.all = true;  // refused calls may be of different kinds
  wake(end, post.root);
}

/// Settles, once for each ticket, whether all members have posted or one has given up; true if it is settled so.
inline bool settle(Endpoint& end, std::uint64_t ticket, bool all_posted) noexcept {
  std::atomic<std::uint64_t>& verdict = end.group->slot(ticket).verdict;
  const std::uint64_t wanted = 2 * ticket + (all_posted ? 1 : 2);
  std::uint64_t found = verdict.load();
  if (found < 2 * ticket + 1 && verdict.compare_exchange_strong(found, wanted)) return true;
  return found == wanted;
}

/// Shows the operation to the peers. `finished`: there is nothing this member will touch.
inline void publish(Operation& o, bool finished) noexcept {
  Endpoint& end = *o.endpoint;
  const Post& post = o.post;
  const bool from_root = post.kind == Kind::broadcast || post.kind == Kind::panel;
  o.stage.store(2 * o.ticket + 1);
  const bool last = end.group->slot(o.ticket).posted.fetch_add(1) + 1 == end.group->full(o.ticket);
  Wake wake;
  if (from_root) {
    wake.all = end.rank == post.root;
  } else if (post.kind == Kind::lending) {
    wake.all = true;
  } else {
    wake.all = last && post.kind != Kind::reduce;
    wake.root = last && post.kind == Kind::reduce;
  }
  if (post.inspection != nullptr) {
    if (last) settle(end, o.ticket, true);
    wake = {.all = last};
  }
  wake(end, post.root);
  if (finished && !o.uninspected) finish(o);
}

inline bool condition_met(const Operation& o) noexcept {
  Group& group = *o.endpoint->group;
  if (o.await < 0) return o.await_done ? group.all_done(o.ticket) : group.all_posted(o.ticket);
  return o.await_done ? group.done(o.ticket, o.await) : group.posted(o.ticket, o.await);
}

/// Lets the call be examined beside those of the others, which stay as they are until this member is done. A refused
/// operation is complete for this member. A panel's reader is done when it releases the panel, refused or not.
inline bool pass_inspection(Operation& o) {
  Endpoint& end = *o.endpoint;
  const bool complete = end.group->slot(o.ticket).verdict.load() == 2 * o.ticket + 1;
  end.calls.clear();
  for (int m = 0; m < end.group->size; ++m) {
    const bool called = complete || end.group->posted(o.ticket, m);
    end.calls.push_back(called ? end.group->operation(o.ticket, m).post.inspection : nullptr);
  }
  Inspection& own = *o.post.inspection;
  const bool passed = own.examine(end.calls, complete);
  own.state = passed ? Inspection::State::passed : Inspection::State::refused;
  o.uninspected = false;
  if (!passed) {  // nobody will read what is lent
    o.work = nullptr;
    std::erase_if(end.me->lent, [&](const Loan& l) { return l.endpoint.get() == &end && l.ticket == o.ticket; });
  }
  const bool reads_panel = o.post.kind == Kind::panel && o.post.root != end.rank;
  if (o.work == nullptr && !reads_panel) finish(o);
  return passed;
}

/// One step serves all collectives: await posts, work on them, and where needed await that all are done.
inline bool step_operation(Task& task) {
  auto& o = static_cast<Operation&>(task);
  if (o.uninspected) {
    if (o.endpoint->group->slot(o.ticket).verdict.load() < 2 * o.ticket + 1) return false;
    if (!pass_inspection(o)) return true;
  }
  if (!condition_met(o)) return false;
  if (o.work == nullptr) return true;
  {
    const Touch touch(*o.endpoint->world, *o.endpoint->me);
    o.work(o);
  }
  o.work = nullptr;
  finish(o);
  if (!o.then_done) return true;
  o.await = -1;
  o.await_done = true;
  return condition_met(o);
}

inline int operation_blocked_by(Task& task) {
  const auto& o = static_cast<const Operation&>(task);
  if (o.uninspected) return o.endpoint->group->departed(o.ticket, -1, false);
  return o.endpoint->group->departed(o.ticket, o.await, o.await_done);
}

/// The record of this member's next operation, free to be filled. Waits while peers are not done with its last use.
inline Operation& next_operation(Endpoint& end, Kind kind, const char* name, int root) {
  Inspection* const inspection = std::exchange(end.inspection, nullptr);
  check_alive(end);
  Group& group = *end.group;
  const std::uint64_t ticket = end.next;
  Operation& o = group.operation(ticket, end.rank);
  // By what the caller has waited for, not by what happens to be complete: the verdict is the same on all ranks.
  if (o.owed) {
    throw ArgumentError(std::string("ArgumentError: ") + name + " would be operation number " +
                        std::to_string(ring_size + 1) +
                        " of those that this rank has begun and not waited for; wait for the oldest (" + o.name +
                        "), or release its panel, first");
  }
  if (ticket >= ring_size) {
    const std::uint64_t before = ticket - ring_size;
    const auto ready = [&] {
      if (!o.open && group.all_done(before)) return true;
      advance_all(*end.me);
      return !o.open && group.all_done(before);
    };
    wait_or_leave(end, name, Parked::for_slot, ready, [&] { return group.departed(before, -1, true); });
  }
  ++end.next;
  o.step = step_operation;
  o.blocked_by = operation_blocked_by;
  o.name = name;
  o.endpoint = &end;
  o.ticket = ticket;
  o.work = nullptr;
  o.await = -1;
  o.await_done = false;
  o.then_done = false;
  o.held = false;
  o.owed = true;
  o.result = nullptr;
  o.post = {};
  o.post.kind = kind;
  o.post.root = root;
  o.post.name = name;
  o.post.inspection = inspection;
  o.uninspected = inspection != nullptr;
  if (inspection != nullptr) {
    inspection->state = Inspection::State::pending;
    inspection->operation = &o;
  }
  return o;
}

/// Returns once the calls beside this one are examined; after the limit they are refused, on all ranks.
inline void await_inspection(Inspection& call, std::chrono::milliseconds limit) {
  if (call.state != Inspection::State::pending) return;
  auto& o = *static_cast<Operation*>(call.operation);
  Endpoint& end = *o.endpoint;
  const auto ready = [&] {
    advance_all(*end.me);
    return call.state != Inspection::State::pending;
  };
  const auto blocked_by = [&] { return operation_blocked_by(o); };
  if (wait_or_leave(end, o.name, Parked::for_operations, ready, blocked_by, limit, false)) return;
  if (settle(end, o.ticket, false)) Wake{.all = true}(end, -1);
  wait_or_leave(end, o.name, Parked::for_operations, ready, blocked_by);
}

/// What member r has posted, checked to be the same call as this member's.
inline const Post& post_of(const Operation& mine, int r) {
  const Post& theirs = mine.endpoint->group->operation(mine.ticket, r).post;
  const Post& own = mine.post;
  if (theirs.kind != own.kind || theirs.op != own.op || theirs.root != own.root || theirs.type != own.type) {
    throw ArgumentError(std::string("ArgumentError: collective ") + std::to_string(mine.ticket) + " is " + own.name +
                        " (root " + std::to_string(own.root) + ") on rank " + std::to_string(mine.endpoint->rank) +
                        " and " + theirs.name + " (root " + std::to_string(theirs.root) + ") on rank " +
                        std::to_string(r) + ", or of another operation or element type");
  }
  return theirs;
}

}  // namespace partita::detail
