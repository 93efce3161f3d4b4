// SPDX-License-Identifier: Apache-2.0
// ThreadComm: the communicator among the threads of one launch. Data moves by one copy, or is read in place.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "partita/comm/concepts.hpp"
#include "partita/comm/thread/control.hpp"
#include "partita/comm/thread/message.hpp"
#include "partita/comm/thread/panel.hpp"
#include "partita/comm/thread/request.hpp"
#include "partita/comm/thread/share.hpp"
#include "partita/trace/event.hpp"

namespace partita {

/// A rank of `launch_threads` (comm/launch.hpp) or of a communicator split from one. It belongs to the thread of its
/// rank, as do its requests and panels; it may be moved, not copied.
///
/// Requests may be waited for in any order: each wait advances all that the rank has begun. Up to 64 operations of
/// one communicator may be pending; the next throws ArgumentError. Nothing is allocated for a collective.
///
/// Memory. Buffers must outlive their requests, and lent blocks drain(). A rank that leaves an operation, a request
/// or a root's panel by an exception returns only when no peer touches its buffers, so scopes may unwind. One case is
/// the user's to guard: memory of his own, lent by a panel whose handle is gone, must not die before drain(), which
/// also waits after a failure. Memory from allocate() is safe in this case too.
///
/// Failure. Ranks that call different collectives, or with shapes that do not fit each other, fail the launch
/// (ArgumentError or ShapeError where it is seen, PeerFailed elsewhere); errors of a rank's own arguments, found
/// before anything is posted, leave the communicator as it was. PeerFailed names the rank in the launch.
class ThreadComm {
 public:
  using Request = ThreadRequest;
  template <class T>
  using Panel = ThreadPanel<T>;
  using Lending = ThreadLending;
  static constexpr bool panels_in_place = true;

  explicit ThreadComm(std::shared_ptr<detail::Endpoint> end) noexcept : end_(std::move(end)) {}

  [[nodiscard]] int rank() const noexcept { return end_->rank; }
  [[nodiscard]] int size() const noexcept { return end_->group->size; }

  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    check_root("broadcast", root);
    detail::check_view("broadcast", "the buffer", out);
    detail::Operation& o = begin<T>(detail::Kind::broadcast, "broadcast", root, out.size());
    o.post.out = detail::rectangle(out);
    if (rank() == root) return await(o, -1, true);
    o.work = detail::work_broadcast<T>;
    return await(o, root, false);
  }

  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    check_root("broadcast_panel", root);
    const bool lends = rank() == root;
    if (lends) detail::check_view("broadcast_panel", "the lent block", in);
    const View<const T> seen = lends ? in : View<const T>(out);
    detail::Operation& o = begin<T>(detail::Kind::panel, "broadcast_panel", root, seen.size());
    if (lends) detail::open_loan(end_, o, detail::rectangle(in));
    if (o.uninspected) detail::open_task(*end_->me, o);
    detail::publish(o, lends);
    return Panel<T>(end_, o, seen);
  }

  /// See LendsBlocks in comm/concepts.hpp.
  template <class T>
  [[nodiscard]] Lending lend(View<const T> in, Block place, Shape whole) {
    detail::check_view("lend", "the block", in);
    detail::check_shape("lend", "the block", in.shape(), place.shape());
    detail::Operation& o = next<T>(detail::Kind::lending, "lend", -1);
    o.post.place = place;
    o.post.whole = whole;
    detail::open_loan(end_, o, detail::rectangle(in));
    detail::publish(o, false);
    return Lending(end_, o);
  }
  template <class T>
  [[nodiscard]] Panel<T> panel_of(const Lending& lending, int root, Block part) {
    Panel<T> panel = lending.panel<T>(root, part);
    emit({"broadcast_panel", rank(), size(), root, part.size(), part.size() * static_cast<index_t>(sizeof(T))});
    return panel;
  }

  template <class T>
  [[nodiscard]] Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root,
                               Into into = Into::overwrite) {
    detail::check_reduction<T>("reduce", ReduceOp::sum);
    check_root("reduce", root);
    detail::check_view("reduce", "the input", in);
    if (rank() == root) {
      detail::check_view("reduce", "the output", out);
      detail::check_shape("reduce", "the output", out.shape(), in.shape());
      detail::check_same_or_apart<T>("reduce", in, out);
    }
    detail::Operation& o = begin<T>(detail::Kind::reduce, "reduce", root, in.size());
    o.post.in = detail::rectangle(in);
    if (rank() != root) return await(o, root, true);
    o.post.out = detail::rectangle(out);
    o.post.into = into;
    o.work = detail::work_reduce<T>;
    return await(o, -1, false);
  }

  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    detail::check_reduction<T>("all_reduce", op);
    detail::check_view("all_reduce", "the input", in);
    detail::check_view("all_reduce", "the output", out);
    detail::check_shape("all_reduce", "the output", out.shape(), in.shape());
    detail::check_same_or_apart<T>("all_reduce", in, out);
    detail::Operation& o = begin<T>(detail::Kind::all_reduce, "all_reduce", -1, in.size());
    o.post.in = detail::rectangle(in);
    o.post.out = detail::rectangle(out);
    o.post.op = op;
    detail::begin_for_all(o, detail::work_all_reduce<T>);
    return Request(end_, o);
  }

  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    detail::check_reduction<T>("reduce_scatter", ReduceOp::sum);
    detail::check_view("reduce_scatter", "the input", in);
    detail::check_view("reduce_scatter", "the output", out);
    detail::check_blocks("reduce_scatter", blocks, rank(), size(), in.shape(), out.shape());
    detail::check_own_place<T>("reduce_scatter", out, in, blocks[static_cast<std::size_t>(rank())]);
    detail::Operation& o = begin<T>(detail::Kind::reduce_scatter, "reduce_scatter", -1, in.size());
    o.post.in = detail::rectangle(in);
    o.post.out = detail::rectangle(out);
    o.blocks = blocks;
    detail::begin_for_all(o, detail::work_reduce_scatter<T>);
    return Request(end_, o);
  }

  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_view("all_gather", "the input", in);
    detail::check_view("all_gather", "the output", out);
    detail::check_blocks("all_gather", blocks, rank(), size(), out.shape(), in.shape());
    detail::check_own_place<T>("all_gather", in, out, blocks[static_cast<std::size_t>(rank())]);
    detail::Operation& o = begin<T>(detail::Kind::all_gather, "all_gather", -1, out.size());
    o.post.in = detail::rectangle(in);
    o.post.out = detail::rectangle(out);
    o.blocks = blocks;
    detail::begin_for_all(o, detail::work_all_gather<T>);
    return Request(end_, o);
  }

  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    detail::check_exchange<T>("all_to_all_v", sends, receives, rank(), size());
    index_t total = 0;
    for (const View<T>& v : receives) total += v.size();
    detail::Operation& o = begin<T>(detail::Kind::all_to_all_v, "all_to_all_v", -1, total);
    o.post.table = sends.data();
    o.receives = receives.data();
    detail::begin_for_all(o, detail::work_all_to_all_v<T>);
    return Request(end_, o);
  }

  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    return message<std::remove_const_t<T>>(true, "send", "receiver", in, to, tag);
  }

  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    return message<T>(false, "recv", "sender", out, from, tag);
  }

  void barrier() {
    emit({"barrier", rank(), size(), -1, 0, 0});
    detail::run_control(*end_, "barrier", {}, nullptr, detail::work_barrier, nullptr);
  }

  [[nodiscard]] index_t agree(index_t value) {
    emit({"agree", rank(), size(), -1, 0, 0});
    index_t largest = value;
    detail::run_control(*end_, "agree", {value, 0}, nullptr, detail::work_agree, &largest);
    return largest;
  }

  /// Throws PeerFailed after a failure, once no peer reads what this rank has lent.
  void drain() {
    detail::check_alive(*end_);
    detail::RankState& me = *end_->me;
    const auto ready = [&] {
      detail::advance_all(me);
      detail::prune_loans(me);
      return find_loan() == nullptr;
    };
    detail::wait_or_leave(*end_, "drain", detail::Parked::for_operations, ready, [&] {
      const detail::Loan* loan = find_loan();
      return loan == nullptr ? -1 : end_->group->departed(loan->ticket, -1, true);
    });
  }

  [[nodiscard]] std::optional<ThreadComm> split(int color, int key) {
    emit({"split", rank(), size(), -1, 0, 0});
    std::shared_ptr<detail::Endpoint> end = detail::split_group(*end_, color, key);
    if (end == nullptr) return std::nullopt;
    return ThreadComm(std::move(end));
  }

  [[nodiscard]] std::optional<ThreadComm> subset(int n) {
    if (n < 1 || n > size()) {
      throw ArgumentError("ArgumentError: subset of " + std::to_string(n) + " ranks, the communicator has " +
                          std::to_string(size()) + "; ask for 1 to that many");
    }
    return split(rank() < n ? 0 : -1, rank());
  }

  /// See compute_turn() in comm/concepts.hpp.
  [[nodiscard]] std::unique_lock<std::mutex> compute_turn() { return end_->world->turn(end_->world_rank); }

  /// See SharesWork in comm/concepts.hpp.
  [[nodiscard]] bool share_work(bool (*ready)(void*), bool (*run)(void*), void* work) {
    return detail::share_work(*end_, ready, run, work);
  }

  void abort(const std::string& reason) { end_->world->fail(end_->world_rank, reason); }

  // Carries inspections (comm/checked/inspection.hpp).
  void inspect_next(Inspection* call) noexcept { end_->inspection = call; }
  [[nodiscard]] Request inspect_only(Inspection& call) {
    end_->inspection = &call;
    detail::Operation& o = detail::next_operation(*end_, detail::Kind::control, "a comparison of calls", -1);
    return await(o, -1, false);
  }
  static constexpr auto await_inspection = &detail::await_inspection;
  void inspect_message(std::shared_ptr<Inspection> call) noexcept { end_->message_inspection = std::move(call); }
  static constexpr auto await_message = &detail::await_message;
  void keep(std::shared_ptr<void> kept) { end_->group->kept[static_cast<std::size_t>(rank())] = std::move(kept); }
  [[nodiscard]] std::shared_ptr<void> kept_by(int m) const { return end_->group->kept[static_cast<std::size_t>(m)]; }

  [[nodiscard]] Memory allocate(std::size_t bytes) {
    return detail::allocate_block(end_->group->world, end_->world_rank, bytes);
  }

  /// Of this rank, over all communicators of the launch. Complete for the operations that it has waited for.
  [[nodiscard]] Traffic traffic() const noexcept {
    const auto of = [](const std::atomic<index_t>& x) { return x.load(std::memory_order_relaxed); };
    return {of(end_->me->messages), of(end_->me->elements), of(end_->me->bytes)};
  }

 private:
  void check_root(const char* operation, int root) const { detail::check_member(operation, "root", root, size()); }

  template <class T>
  detail::Operation& begin(detail::Kind kind, const char* name, int root, index_t elements) {
    emit({name, rank(), size(), root, elements, elements * static_cast<index_t>(sizeof(T))});
    return next<T>(kind, name, root);
  }
  template <class T>
  detail::Operation& next(detail::Kind kind, const char* name, int root) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    detail::Operation& o = detail::next_operation(*end_, kind, name, root);
    o.post.type = &detail::type_tag<T>;
    return o;
  }

  Request await(detail::Operation& o, int member, bool done) {
    o.await = member;
    o.await_done = done;
    detail::open_task(*end_->me, o);
    detail::publish(o, o.work == nullptr);
    return Request(end_, o);
  }

  template <class T>
  Request message(bool sending, const char* name, const char* role, View<const T> view, int peer, int tag) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    detail::check_member(name, role, peer, size());
    detail::check_view(name, "the buffer", view);
    emit({name, rank(), size(), peer, view.size(), view.size() * static_cast<index_t>(sizeof(T))});
    return Request(end_, detail::begin_message<T>(*end_, sending, detail::rectangle(view), peer, tag));
  }

  [[nodiscard]] const detail::Loan* find_loan() const noexcept {
    for (const detail::Loan& loan : end_->me->lent) {
      if (loan.endpoint == end_) return &loan;
    }
    return nullptr;
  }

  std::shared_ptr<detail::Endpoint> end_;
};

static_assert(Communicator<ThreadComm>);
static_assert(CarriesInspections<ThreadComm>);

}  // namespace partita
