// SPDX-License-Identifier: Apache-2.0
// Collectives that move and do not add: broadcasts, and every kind of exchange among pairs of ranks.
#pragma once

#include <memory>
#include <vector>

#include "partita/comm/mpi/transfer.hpp"

namespace partita::detail {

/// Credits one message of `count` elements to this rank.
template <class T>
void credit(MpiGroup& group, index_t count) noexcept {
  if (count > 0) group.world->traffic.add(1, count, sizeof(T));
}

/// One MPI broadcast for each chunk.
template <class T>
class MpiBroadcast final : public MpiTask {
 public:
  MpiBroadcast(std::shared_ptr<MpiGroup> group, View<T> out, int root)
      : MpiTask("broadcast"), group_(std::move(group)), transfers_(*group_), out_(out), root_(root) {
    T* data = out.data;
    if (!out.contiguous()) {
      packed_ = MpiBuffer<T>(*group_->world, out.size());
      data = packed_.data();
      if (sends()) pack_range(View<const T>(out), 0, out.size(), data);
    }
    transfers_.broadcast(data, out.size(), root, group_->world->chunk(sizeof(T)));
  }

  bool advance() override {
    if (!transfers_.test(name)) return false;
    if (sends()) return true;
    if (!out_.contiguous()) unpack_range<T>(packed_.data(), out_, 0, out_.size());
    credit<T>(*group_, out_.size());
    return true;
  }

 private:
  [[nodiscard]] bool sends() const noexcept { return group_->rank == root_; }

  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;
  MpiBuffer<T> packed_;
  View<T> out_;
  int root_;
};

/// Rectangles to and from other ranks, all under one tag.
template <class T>
class MpiExchange final : public MpiTask {
 public:
  MpiExchange(const char* task_name, std::shared_ptr<MpiGroup> group, int tag)
      : MpiTask(task_name),
        group_(std::move(group)),
        transfers_(*group_),
        tag_(tag),
        arrivals_(group_->world->pooled<Arrival>()),
        departures_(group_->world->pooled<MpiBuffer<T>>()) {}

  void receive(View<T> to, int peer) {
    if (to.empty()) return;
    T* data = to.data;
    if (!to.contiguous())
      data = arrivals_.emplace_back(Arrival{MpiBuffer<T>(*group_->world, to.size()), to}).packed.data();
    if (peer != group_->rank) {
      ++messages_;
      elements_ += to.size();
    }
    transfers_.receive(data, to.size(), peer, tag_, chunk());
  }
  void send(View<const T> from, int peer) { send_packed(packed(from), from.size(), peer); }
  /// The same rectangle to several ranks is packed once.
  [[nodiscard]] const T* packed(View<const T> from) {
    if (from.empty() || from.contiguous()) return from.data;
    T* data = departures_.emplace_back(*group_->world, from.size()).data();
    pack_range(from, 0, from.size(), data);
    return data;
  }
  void send_packed(const T* data, index_t count, int peer) { transfers_.send(data, count, peer, tag_, chunk()); }

  bool advance() override {
    if (!transfers_.test(name)) return false;
    for (Arrival& a : arrivals_) unpack_range<T>(a.packed.data(), a.to, 0, a.to.size());
    group_->world->traffic.add(messages_, elements_, sizeof(T));
    return true;
  }

 private:
  struct Arrival {
    MpiBuffer<T> packed;
    View<T> to;
  };

  [[nodiscard]] index_t chunk() const noexcept { return group_->world->chunk(sizeof(T)); }

  std::shared_ptr<MpiGroup> group_;
  MpiTransfers transfers_;
  int tag_;
  std::vector<Arrival, Pooled<Arrival>> arrivals_;
  MpiBuffers<T> departures_;
  index_t messages_ = 0;
  index_t elements_ = 0;
};

}  // namespace partita::detail
