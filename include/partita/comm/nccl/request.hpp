// SPDX-License-Identifier: Apache-2.0
// What NcclComm's operations return, and how messages begin.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/nccl/stage.hpp"

namespace partita {

namespace detail {

/// Those of one communicator, as one group.
inline void begin_messages_of(NcclGroup& g, const std::vector<std::shared_ptr<NcclMessage>>& all) {
  NcclWorld& world = *g.world;
  world.accesses.clear();
  for (const auto& m : all) {
    if (m->group.get() == &g) world.accesses.push_back(m->access);
  }
  world.operate([&] {
    NcclStage stage(world);
    std::vector<NcclPlace> places;
    for (const auto& m : all) places.push_back(m->group.get() == &g ? stage.place(m->block) : NcclPlace{});
    stage.open();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->sends) stage.pack(places[i]);
    }
    NcclCalls calls(g);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (places[i].block.empty()) continue;
      const std::size_t bytes = places[i].block.bytes();
      std::byte* const data = stage.at(places[i]);
      if (all[i]->sends) {
        world.check(ncclSend(data, bytes, ncclInt8, all[i]->peer, g.comm, world.stream()), "ncclSend");
      } else {
        world.check(ncclRecv(data, bytes, ncclInt8, all[i]->peer, g.comm, world.stream()), "ncclRecv");
      }
    }
    calls.end();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i]->sends) stage.unpack(places[i]);
    }
  });
}

/// Begins all messages that wait, communicator by communicator, in the order in which the first of each was asked for.
inline void begin_messages(NcclWorld& world) {
  if (world.messages.waiting.empty()) return;
  const std::vector<std::shared_ptr<NcclMessage>> all = std::exchange(world.messages.waiting, {});
  for (const auto& first : all) {
    if (first->begun) continue;
    begin_messages_of(*first->group, all);
    for (const auto& m : all) m->begun = m->begun || m->group == first->group;
  }
}

/// Takes up a message of a peer, or completes one of the rank to itself. Pre: its arguments are right.
inline void add_message(const std::shared_ptr<NcclMessage>& message) {
  NcclWorld& world = *message->group->world;
  const char* const name = message->sends ? "send" : "recv";
  const bool to_self = message->peer == message->group->rank;
  if (message->block.empty() && !to_self) {
    message->begun = true;
    return;
  }
  if (world.messages.clashes(message->access)) {
    throw AliasError(std::string("AliasError: ") + name +
                     ": the buffer overlaps that of a message that has not begun; wait for that first");
  }
  if (!to_self) {
    world.messages.waiting.push_back(message);
    return;
  }
  const std::shared_ptr<NcclMessage> other = world.messages.take_other_half(*message);
  if (other == nullptr) {
    world.messages.halves.push_back(message);
    return;
  }
  if (other->shape != message->shape || other->element_bytes != message->element_bytes) {
    throw ShapeError(std::string("ShapeError: ") + name + " of " + to_string(message->shape) + " elements of " +
                     std::to_string(message->element_bytes) + " bytes to itself, the other half is " +
                     to_string(other->shape) + " of " + std::to_string(other->element_bytes));
  }
  const NcclMessage& from = message->sends ? *message : *other;
  const NcclMessage& to = message->sends ? *other : *message;
  if (!from.block.empty()) {
    world.accesses.assign({from.access, to.access});
    world.operate([&] { world.copy(from.block, to.block); });
  }
  message->begun = other->begun = true;
}

}  // namespace detail

/// A pending operation: it is ordered on the rank's streams, and wait() does not make the host wait for it. A message
/// begins when it is waited for, or another operation begins; one that is given up before has failed the rank, but for
/// a message of the rank to itself.
class [[nodiscard]] NcclRequest {
 public:
  NcclRequest() = default;
  explicit NcclRequest(std::shared_ptr<detail::NcclWorld> world) noexcept : world_(std::move(world)) {}
  explicit NcclRequest(std::shared_ptr<detail::NcclMessage> message)
      : world_(message->group->world), message_(std::move(message)) {}
  NcclRequest(NcclRequest&& other) noexcept = default;
  NcclRequest& operator=(NcclRequest&& other) noexcept {
    std::swap(world_, other.world_);
    std::swap(message_, other.message_);
    return *this;
  }
  ~NcclRequest() {
    if (message_ == nullptr || message_->begun) return;
    world_->messages.forget(message_);
    if (message_->peer != message_->group->rank) world_->fail("a message was given up before it was waited for");
  }

  /// Throws PeerFailed after a failure; CudaError, NcclError where messages begin here; TimeoutError where a rank waits
  /// for a message to itself that has no other half.
  void wait() {
    if (world_ == nullptr) return;
    world_->check_alive();
    if (message_ == nullptr) return;
    if (!message_->begun) detail::begin_messages(*world_);
    if (message_->begun) {
      message_.reset();
      return;
    }
    throw TimeoutError(std::string("TimeoutError: ") + (message_->sends ? "send" : "recv") + " with tag " +
                       std::to_string(message_->tag) + " of a rank to itself; begin its other half first");
  }

 private:
  std::shared_ptr<detail::NcclWorld> world_;
  std::shared_ptr<detail::NcclMessage> message_;
};

/// The root's own view, or the receiver's buffer.
template <class T>
class [[nodiscard]] NcclPanel {
 public:
  NcclPanel() = default;
  NcclPanel(View<const T> view, NcclRequest request) noexcept : view_(view), request_(std::move(request)) {}
  void wait() { request_.wait(); }
  [[nodiscard]] View<const T> view() const noexcept { return view_; }
  void release() noexcept { view_ = {}; }

 private:
  View<const T> view_;
  NcclRequest request_;
};

}  // namespace partita
