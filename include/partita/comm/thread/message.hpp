// SPDX-License-Identifier: Apache-2.0
// Sends and receives: matched in order when the second of the two is begun, compared, copied by the receiver.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "partita/comm/arguments.hpp"
#include "partita/comm/thread/sum.hpp"
#include "partita/comm/thread/wait.hpp"

namespace partita::detail {

inline int message_blocked_by(Task& task) {
  const auto& m = static_cast<const Message&>(task);
  Endpoint& end = *m.endpoint;
  if (!end.world->anybody_gone()) return -1;
  const int peer = end.group->world_rank(end.rank == m.sender ? m.receiver : m.sender);
  if (!end.world->gone(peer)) return -1;
  // What a departed peer did is final: a send that it left behind is still delivered.
  const bool served = end.rank == m.sender && m.sender != m.receiver ? m.delivered.load() : m.partner.load() != nullptr;
  return served ? -1 : peer;
}

inline void recycle_message(Task& task) {
  auto& m = static_cast<Message&>(task);
  Message*& free = m.endpoint->group->free_messages[static_cast<std::size_t>(m.endpoint->rank)];
  m.next = std::exchange(free, &m);
  m.inspection.reset();
  m.others.reset();
}

inline void settle_message(Message& m, bool passed) noexcept {
  if (m.inspection != nullptr) m.inspection->state = passed ? Inspection::State::passed : Inspection::State::refused;
}

/// Lets the call of a message that was given up be examined; the other side's is null where nobody has answered.
inline void pass_given_up(Message& m) {
  const std::array<const Inspection*, 2> calls{m.inspection.get(), m.others.get()};
  settle_message(m, m.inspection->examine(calls, false));
}

/// Lets both sides be examined by the receiver, while the sender waits for delivery; true if they pass.
inline bool pass_messages(Message& send, Message& receive) {
  if (send.inspection == nullptr || receive.inspection == nullptr) return true;  // not compared
  const std::array<const Inspection*, 2> calls{receive.inspection.get(), send.inspection.get()};
  if (receive.inspection->examine(calls, true)) return true;
  const std::array<const Inspection*, 2> seen_by_sender{calls[1], calls[0]};
  send.refused = !send.inspection->examine(seen_by_sender, true);
  return false;
}

inline bool step_send(Task& task) {
  auto& m = static_cast<Message&>(task);
  if (m.given_up.load()) {
    pass_given_up(m);
    return true;
  }
  if (!m.delivered.load()) return false;
  settle_message(m, !m.refused);
  return true;
}

template <class T>
bool step_receive(Task& task) {
  auto& m = static_cast<Message&>(task);
  if (m.given_up.load()) {
    pass_given_up(m);
    return true;
  }
  Message* from = m.partner.load();
  if (from == nullptr) return false;
  Endpoint& end = *m.endpoint;
  const int sender = end.group->world_rank(m.sender);
  {
    const Touch touch(*end.world, *end.me);
    const bool passed = pass_messages(*from, m);
    if (passed && from->type != m.type) {
      throw ArgumentError("ArgumentError: recv of other elements than rank " + std::to_string(m.sender) + " sends");
    }
    if (passed) {
      check_shape("recv", "the buffer", {m.view.rows, m.view.cols}, {from->view.rows, from->view.cols});
      copy_rectangle(view_of<const T>(from->view), view_of<T>(m.view));
      if (m.sender != m.receiver) end.world->credit(end.world_rank, 1, m.view.rows * m.view.cols, sizeof(T));
    }
    settle_message(m, passed);
  }
  from->delivered.store(true);
  end.world->unpark(sender);
  return true;
}

/// Takes the first of the list that goes with m out of it; null if there is none.
inline Message* take_match(Message*& list, const Message& m) noexcept {
  for (Message** at = &list; *at != nullptr; at = &(*at)->next) {
    Message* found = *at;
    if (found->sender == m.sender && found->tag == m.tag) {
      *at = found->next;
      found->next = nullptr;
      return found;
    }
  }
  return nullptr;
}

/// Takes what m answers too late out of those that were given up; null if there is none.
inline std::shared_ptr<Inspection> take_given_up(Mailbox& box, const Message& m) noexcept {
  const auto answered = [&m](const GivenUp& g) { return g.sends != m.sends && g.sender == m.sender && g.tag == m.tag; };
  const auto late = [&](const GivenUp& g) { return answered(g) && g.collectives >= m.endpoint->next; };
  const auto found = std::find_if(box.given_up.begin(), box.given_up.end(), late);
  std::shared_ptr<Inspection> call;
  if (found != box.given_up.end()) {
    call = std::move(found->call);
    box.given_up.erase(found);
  }
  std::erase_if(box.given_up, [&](const GivenUp& g) { return answered(g) && !late(g); });
  return call;
}

inline void append_message(Message*& list, Message& m) noexcept {
  Message** at = &list;
  while (*at != nullptr) at = &(*at)->next;
  *at = &m;
}

inline Message& new_message(Endpoint& end) {
  const auto own = static_cast<std::size_t>(end.rank);
  Message*& free = end.group->free_messages[own];
  if (free == nullptr) return end.group->messages[own].emplace_back();
  Message& m = *std::exchange(free, free->next);
  m.next = nullptr;
  m.partner.store(nullptr);
  m.delivered.store(false);
  m.waited.store(false);
  m.given_up.store(false);
  m.refused = false;
  return m;
}

/// Begins a send (`sending`) to or a receive from member `peer`.
template <class T>
Message& begin_message(Endpoint& end, bool sending, const Rectangle& view, int peer, int tag) {
  check_alive(end);
  Message& m = new_message(end);
  m.step = sending ? &step_send : &step_receive<T>;
  m.blocked_by = message_blocked_by;
  m.closed = recycle_message;
  m.name = sending ? "send" : "recv";
  m.endpoint = &end;
  ++m.ticket;
  m.sends = sending;
  m.sender = sending ? end.rank : peer;
  m.receiver = sending ? peer : end.rank;
  m.tag = tag;
  m.type = &type_tag<T>;
  m.view = view;
  m.inspection = std::move(end.message_inspection);
  if (m.inspection != nullptr) {
    m.inspection->state = Inspection::State::pending;
    m.inspection->operation = &m;
  }
  open_task(*end.me, m);
  Mailbox& box = end.group->mailboxes[static_cast<std::size_t>(m.receiver)];
  {
    const std::lock_guard lock(box.mutex);
    if (m.inspection != nullptr && !box.given_up.empty()) m.others = take_given_up(box, m);
    if (m.others != nullptr) {
      m.given_up.store(true);
      return m;
    }
    Message* other = take_match(sending ? box.receives : box.sends, m);
    if (other == nullptr) {
      append_message(sending ? box.sends : box.receives, m);
      return m;
    }
    Message& send = sending ? m : *other;
    Message& receive = sending ? *other : m;
    receive.partner.store(&send);
  }
  if (sending) end.world->unpark(end.group->world_rank(peer));
  return m;
}

/// Takes m out of the list; false where it is not in it.
inline bool remove_message(Message*& list, const Message& m) noexcept {
  for (Message** at = &list; *at != nullptr; at = &(*at)->next) {
    if (*at != &m) continue;
    *at = m.next;
    return true;
  }
  return false;
}

/// What the peer of m waits for from m's rank, in vain as m does; null if there is nothing. Pre: m is waited for, and
/// in no list.
inline Message* take_waited(Message*& list, const Message& m) noexcept {
  for (Message* f = list; f != nullptr; f = f->next) {
    const bool from_peer = f->sends == m.sends ? f->sender == m.receiver && f->receiver == m.sender
                                               : f->sender == m.sender && f->receiver == m.receiver;
    if (from_peer && f->waited.load() && f->inspection != nullptr && remove_message(list, *f)) return f;
  }
  return nullptr;
}

/// Gives up a message that nobody has answered.
inline void give_up_message(Message& m) {
  Endpoint& end = *m.endpoint;
  Mailbox& box = end.group->mailboxes[static_cast<std::size_t>(m.receiver)];
  Mailbox& back = end.group->mailboxes[static_cast<std::size_t>(m.sender)];
  std::unique_lock lock(box.mutex, std::defer_lock);
  std::unique_lock back_lock(back.mutex, std::defer_lock);
  if (&box == &back) {
    lock.lock();
  } else {
    std::lock(lock, back_lock);
  }
  if (!remove_message(m.sends ? box.sends : box.receives, m)) return;  // answered, or given up by the peer, meanwhile
  m.given_up.store(true);
  Message* other = take_waited(m.sends ? box.receives : box.sends, m);
  if (other == nullptr) other = take_waited(m.sends ? back.sends : back.receives, m);
  if (other == nullptr) {
    box.given_up.push_back({m.sends, m.sender, m.tag, end.next, m.inspection});
    return;
  }
  m.others = other->inspection;
  other->others = m.inspection;
  other->given_up.store(true);
  end.world->unpark(end.group->world_rank(end.rank == m.sender ? m.receiver : m.sender));
}

/// Returns once the message is examined beside the other side's; after the limit it is given up.
inline void await_message(Inspection& call, std::chrono::milliseconds limit) {
  if (call.state != Inspection::State::pending) return;
  auto& m = *static_cast<Message*>(call.operation);
  Endpoint& end = *m.endpoint;
  m.waited.store(true);
  const auto ready = [&] {
    advance_all(*end.me);
    return call.state != Inspection::State::pending;
  };
  const auto blocked_by = [&m] { return message_blocked_by(m); };
  if (wait_or_leave(end, m.name, Parked::for_operations, ready, blocked_by, limit, false)) return;
  give_up_message(m);
  wait_or_leave(end, m.name, Parked::for_operations, ready, blocked_by);
}

}  // namespace partita::detail
