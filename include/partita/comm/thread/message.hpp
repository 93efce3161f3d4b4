// SPDX-License-Identifier: Apache-2.0
// Sends and receives: matched in order when the second of the two is begun, copied by the receiver.
#pragma once

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
}

inline bool step_send(Task& task) { return static_cast<Message&>(task).delivered.load(); }

template <class T>
bool step_receive(Task& task) {
  auto& m = static_cast<Message&>(task);
  Message* from = m.partner.load();
  if (from == nullptr) return false;
  Endpoint& end = *m.endpoint;
  const int sender = end.group->world_rank(m.sender);
  {
    const Touch touch(*end.world, *end.me);
    if (from->type != m.type) {
      throw ArgumentError("ArgumentError: recv of other elements than rank " + std::to_string(m.sender) + " sends");
    }
    check_shape("recv", "the buffer", {m.view.rows, m.view.cols}, {from->view.rows, from->view.cols});
    copy_rectangle(view_of<const T>(from->view), view_of<T>(m.view));
    if (m.sender != m.receiver) end.world->credit(end.world_rank, 1, m.view.rows * m.view.cols, sizeof(T));
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
  m.sender = sending ? end.rank : peer;
  m.receiver = sending ? peer : end.rank;
  m.tag = tag;
  m.type = &type_tag<T>;
  m.view = view;
  open_task(*end.me, m);
  Mailbox& box = end.group->mailboxes[static_cast<std::size_t>(m.receiver)];
  {
    const std::lock_guard lock(box.mutex);
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

}  // namespace partita::detail
