// SPDX-License-Identifier: Apache-2.0
// SelfComm: the communicator of one rank, for serial programs and as the simplest model of the concept.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/comm/arguments.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/comm/thread/sum.hpp"
#include "partita/trace/event.hpp"

namespace partita {

namespace detail {

/// A send or a receive of a rank with itself, copied when the second of the two is begun.
struct SelfMessage {
  bool sends = false;
  int tag = 0;
  const void* type = nullptr;
  const void* from = nullptr;
  void* into = nullptr;
  Shape shape;
  index_t ld = 0;
  bool delivered = false;
};

struct SelfFailure {
  bool failed = false;
  std::string reason;
};

template <class T>
inline constexpr char self_type_tag = 0;

}  // namespace detail

/// Operations are complete when they are begun, but for a message to itself, which needs both its halves.
class SelfRequest {
 public:
  SelfRequest() = default;
  explicit SelfRequest(std::shared_ptr<detail::SelfMessage> message) noexcept : message_(std::move(message)) {}

  /// Throws TimeoutError at once where the other half of a message has not been begun: nobody else could.
  void wait() {
    if (message_ == nullptr || message_->delivered) return;
    throw TimeoutError(std::string("TimeoutError: ") + (message_->sends ? "send" : "recv") + " with tag " +
                       std::to_string(message_->tag) + " of a single rank to itself; begin its other half first");
  }

 private:
  std::shared_ptr<detail::SelfMessage> message_;
};

/// The root's own view.
template <class T>
class SelfPanel {
 public:
  SelfPanel() = default;
  explicit SelfPanel(View<const T> view) noexcept : view_(view) {}
  void wait() {}
  [[nodiscard]] View<const T> view() const noexcept { return view_; }
  void release() noexcept { view_ = {}; }

 private:
  View<const T> view_;
};

/// One rank. After abort(), every operation throws PeerFailed(0).
class SelfComm {
 public:
  using Request = SelfRequest;
  template <class T>
  using Panel = SelfPanel<T>;
  static constexpr bool panels_in_place = true;

  SelfComm() = default;

  [[nodiscard]] int rank() const noexcept { return 0; }
  [[nodiscard]] int size() const noexcept { return 1; }

  template <class T>
  Request broadcast(View<T> out, int root) {
    detail::check_member("broadcast", "root", root, 1);
    detail::check_view("broadcast", "the buffer", out);
    begin<T>("broadcast", root, out.size());
    return {};
  }

  template <class T>
  Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    static_cast<void>(out);
    detail::check_member("broadcast_panel", "root", root, 1);
    detail::check_view("broadcast_panel", "the lent block", in);
    begin<T>("broadcast_panel", root, in.size());
    return Panel<T>(in);
  }

  template <class T>
  Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root, Into into = Into::overwrite) {
    detail::check_member("reduce", "root", root, 1);
    sum_alone<T>("reduce", in, out, root, ReduceOp::sum, into);
    return {};
  }

  template <class T>
  Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    sum_alone<T>("all_reduce", in, out, -1, op, Into::overwrite);
    return {};
  }

  template <class T>
  Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_reduction<T>("reduce_scatter", ReduceOp::sum);
    detail::check_view("reduce_scatter", "the input", in);
    detail::check_view("reduce_scatter", "the output", out);
    detail::check_blocks("reduce_scatter", blocks, 0, 1, in.shape(), out.shape());
    detail::check_own_place<T>("reduce_scatter", out, in, blocks[0]);
    begin<T>("reduce_scatter", -1, in.size());
    detail::copy_rectangle(in.sub(blocks[0]), out);
    return {};
  }

  template <class T>
  Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_view("all_gather", "the input", in);
    detail::check_view("all_gather", "the output", out);
    detail::check_blocks("all_gather", blocks, 0, 1, out.shape(), in.shape());
    detail::check_own_place<T>("all_gather", in, out, blocks[0]);
    begin<T>("all_gather", -1, out.size());
    detail::copy_rectangle(in, out.sub(blocks[0]));
    return {};
  }

  template <class T>
  Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends, std::span<const View<T>> receives) {
    detail::check_exchange<T>("all_to_all_v", sends, receives, 0, 1);
    begin<T>("all_to_all_v", -1, receives[0].size());
    detail::copy_rectangle(sends[0], receives[0]);
    return {};
  }

  template <class T>
  Request send(View<T> in, int to, int tag) {
    using E = std::remove_const_t<T>;
    return message<E>("send", "receiver", to,
                      {true, tag, &detail::self_type_tag<E>, in.data, nullptr, in.shape(), in.ld, false});
  }

  template <class T>
  Request recv(View<T> out, int from, int tag) {
    return message<T>("recv", "sender", from,
                      {false, tag, &detail::self_type_tag<T>, nullptr, out.data, out.shape(), out.ld, false});
  }

  void barrier() { begin<std::byte>("barrier", -1, 0); }
  [[nodiscard]] index_t agree(index_t value) {
    begin<std::byte>("agree", -1, 0);
    return value;
  }
  void drain() { check_alive(); }

  [[nodiscard]] std::optional<SelfComm> split(int color, int key) {
    static_cast<void>(key);
    begin<std::byte>("split", -1, 0);
    if (color < 0) return std::nullopt;
    SelfComm part;
    part.failure_ = failure_;
    return part;
  }
  [[nodiscard]] std::optional<SelfComm> subset(int n) {
    if (n != 1) {
      throw ArgumentError("ArgumentError: subset of " + std::to_string(n) + " ranks, the communicator has 1");
    }
    return split(0, 0);
  }

  void abort(const std::string& reason) {
    if (!failure_->failed) *failure_ = {true, reason};
  }

  [[nodiscard]] Memory allocate(std::size_t bytes) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    void* memory = bytes > most ? nullptr : ::operator new(bytes, std::align_val_t{64}, std::nothrow);
    if (memory == nullptr) {
      throw CapacityError("CapacityError: " + std::to_string(bytes) + " bytes asked for, and not to be had");
    }
    const auto release = [](void* data, void*) { ::operator delete(data, std::align_val_t{64}); };
    return Memory(static_cast<std::byte*>(memory), MemoryDeleter{release, nullptr});
  }

  [[nodiscard]] Traffic traffic() const noexcept { return {}; }

 private:
  void check_alive() const {
    if (failure_->failed) throw PeerFailed(0, failure_->reason);
  }

  template <class T>
  void begin(const char* name, int root, index_t elements) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    emit({name, 0, 1, root, elements, elements * static_cast<index_t>(sizeof(T))});
    check_alive();
  }

  template <class T>
  void sum_alone(const char* name, View<const T> in, View<T> out, int root, ReduceOp op, Into into) {
    detail::check_reduction<T>(name, op);
    detail::check_view(name, "the input", in);
    detail::check_view(name, "the output", out);
    detail::check_shape(name, "the output", out.shape(), in.shape());
    detail::check_same_or_apart<T>(name, in, out);
    begin<T>(name, root, in.size());
    detail::combine_range<T>({0, in.size()}, op, into, 1, [in](int) { return in; }, 1, [out](int) { return out; });
  }

  template <class T>
  Request message(const char* name, const char* role, int peer, detail::SelfMessage message) {
    detail::check_member(name, role, peer, 1);
    void* data = message.sends ? const_cast<void*>(message.from) : message.into;
    detail::check_view(name, "the buffer",
                       View<T>(static_cast<T*>(data), message.shape.rows, message.shape.cols, message.ld));
    begin<T>(name, peer, message.shape.size());
    // A half whose request has died was abandoned: only this list still holds it.
    std::erase_if(waiting_, [](const auto& m) { return m.use_count() == 1; });
    const auto other = std::find_if(waiting_.begin(), waiting_.end(), [&message](const auto& m) {
      return m->sends != message.sends && m->tag == message.tag;
    });
    auto own = std::make_shared<detail::SelfMessage>(message);
    if (other == waiting_.end()) {
      waiting_.push_back(own);
      return Request(std::move(own));
    }
    detail::SelfMessage& send = message.sends ? *own : **other;
    detail::SelfMessage& receive = message.sends ? **other : *own;
    if (send.type != receive.type) throw ArgumentError("ArgumentError: recv of other elements than are sent");
    detail::check_shape("recv", "the buffer", receive.shape, send.shape);
    detail::copy_rectangle(View<const T>(static_cast<const T*>(send.from), send.shape.rows, send.shape.cols, send.ld),
                           View<T>(static_cast<T*>(receive.into), receive.shape.rows, receive.shape.cols, receive.ld));
    send.delivered = receive.delivered = true;
    waiting_.erase(other);
    return Request(std::move(own));
  }

  std::shared_ptr<detail::SelfFailure> failure_ = std::make_shared<detail::SelfFailure>();
  std::vector<std::shared_ptr<detail::SelfMessage>> waiting_;
};

static_assert(Communicator<SelfComm>);

}  // namespace partita
