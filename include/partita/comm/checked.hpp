// SPDX-License-Identifier: Apache-2.0
// CheckedComm: a communicator whose ranks verify that all make the same calls, before anything is written.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "partita/comm/checked/arguments.hpp"
#include "partita/comm/checked/product.hpp"
#include "partita/comm/checked/start.hpp"
#include "partita/comm/concepts.hpp"

namespace partita {

/// Forwards everything to the communicator that it wraps, and compares each collective call with those of all ranks:
/// operation, number of the call, communicator, shape, blocks, element type, root, reduction, Into, and scalars by
/// check_value(). Where they do not go together nothing is written, all ranks throw the same CollectiveMismatch (or
/// what derives from it) with the calls of all ranks, and the communicator can be used on. The error comes out of the
/// call or of its wait(). A rank whose own arguments are wrong throws alone where all are wrong, else all throw.
///
/// Where the communicator underneath carries inspections (comm/checked/inspection.hpp) the comparison costs no exchange
/// of its own, but a collective completes on no rank before all have called it; a rank that waits longer than the
/// deadline gives up, and all throw MissingCall with what is known of the latest calls of each. Elsewhere each call
/// begins with two agreements and blocks for them, and a missing call is found by the deadline of that communicator.
///
/// There, too, the two sides of a message are compared before it is written: both throw where they differ in type or
/// shape, or where each waits for the other in vain (with another tag, or both in a send). A message that nobody
/// answers is a MissingCall at the deadline, and so is at once what answers it later; a collective brings the ranks
/// into step again. Elsewhere messages are not compared, but kept among the latest 256 calls that a MissingCall tells.
///
/// Over communicators of devices calls are compared likewise, and the host waits for each comparison, and for each sum
/// in place, of which it then reads a few words.
///
/// A communicator belongs to the thread that first calls it. Construction and split are collective; the destructor
/// communicates nothing: what is called too often at the end is found by close().
template <class C>
class CheckedComm {
 public:
  using Request = CheckedRequest<C>;
  template <class T>
  using Panel = CheckedPanel<C, T>;
  static constexpr bool panels_in_place = C::panels_in_place;
  static constexpr bool prefers_all_gather = partita::prefers_all_gather<C>;
  static constexpr bool prefers_cut_sums = partita::prefers_cut_sums<C>;
  static constexpr bool messages_in_order = partita::messages_in_order<C>;

  /// Communicates: a barrier, where inspections are carried.
  explicit CheckedComm(C base, CheckOptions options = {})
      : CheckedComm(std::move(base), "the communicator", 1, std::make_shared<detail::EventLog>(), options) {}

  [[nodiscard]] int rank() const noexcept { return base_.rank(); }
  [[nodiscard]] int size() const noexcept { return base_.size(); }
  [[nodiscard]] C& base() noexcept { return base_; }
  [[nodiscard]] const C& base() const noexcept { return base_; }
  /// Where views hold addresses of a device.
  [[nodiscard]] decltype(auto) timeline() const noexcept
    requires OnDevice<C>
  {
    return base_.timeline();
  }
  /// Of the communicator underneath, without what comparisons moved.
  [[nodiscard]] Traffic traffic() const noexcept { return base_.traffic() - state_->log->comparisons; }

  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    detail::CheckedCall& call = open<T>(detail::CallKind::broadcast, out.shape(), root);
    if (rank() != root) touched(out);
    const auto check = [&] {
      detail::check_member("broadcast", "root", root, size());
      detail::check_view("broadcast", "the buffer", out);
    };
    return request(call, check, [&] { return base_.broadcast(out, root); });
  }

  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    const View<const T> seen = rank() == root ? in : View<const T>(out);
    detail::CheckedCall& call = open<T>(detail::CallKind::broadcast_panel, seen.shape(), root);
    if (rank() != root && !panels_in_place) touched(out);
    const auto check = [&] {
      detail::check_member("broadcast_panel", "root", root, size());
      if (rank() == root || !panels_in_place) detail::check_view("broadcast_panel", "the block", seen);
    };
    auto panel = start(call, check, [&] { return base_.template broadcast_panel<T>(in, out, root); });
    return Panel<T>(std::move(panel), state_, &call);
  }

  template <class T>
  [[nodiscard]] Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root,
                               Into into = Into::overwrite) {
    detail::CheckedCall& call = open<T>(detail::CallKind::reduce, in.shape(), root);
    call.record.into = static_cast<int>(into);
    if (rank() == root) touched(out);
    const auto check = [&] { detail::check_own_reduce<T>(in, out, root, rank(), size()); };
    return request(call, check, [&] { return base_.reduce(in, out, root, into); });
  }

  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    detail::CheckedCall& call = open<T>(detail::CallKind::all_reduce, in.shape(), -1);
    call.record.op = static_cast<int>(op);
    const detail::ByteRows bytes = detail::bytes_of(out);
    const bool kept = in.data == out.data && op == ReduceOp::sum && size() > 1 && state_->options.repeated_sums;
    if (kept) call.record.repeated = state_->sums.repeated<T>(in);
    if (call.record.repeated == 0) state_->sums.touched(bytes);
    const auto check = [&] { detail::check_own_all_reduce<T>(in, out, op); };
    return request(call, check, [&] { return base_.all_reduce(in, out, op); }, kept ? bytes : detail::ByteRows{});
  }

  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    detail::CheckedCall& call = open<T>(detail::CallKind::reduce_scatter, in.shape(), -1);
    call.record.blocks = detail::hash_blocks(blocks);
    touched(out);
    const auto check = [&] { detail::check_own_blocks<T>("reduce_scatter", in, out, blocks, rank(), size()); };
    return request(call, check, [&] { return base_.reduce_scatter(in, out, blocks); });
  }

  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::CheckedCall& call = open<T>(detail::CallKind::all_gather, out.shape(), -1);
    call.record.blocks = detail::hash_blocks(blocks);
    touched(out);
    const auto check = [&] { detail::check_own_blocks<T>("all_gather", out, in, blocks, rank(), size()); };
    return request(call, check, [&] { return base_.all_gather(in, out, blocks); });
  }

  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    detail::CheckedCall& call = open<T>(detail::CallKind::all_to_all_v, {}, -1);
    call.shapes.clear();
    for (const View<const T>& v : sends) call.shapes.push_back(v.shape());
    for (const View<T>& v : receives) {
      call.shapes.push_back(v.shape());
      touched(v);
    }
    const auto check = [&] { detail::check_exchange<T>("all_to_all_v", sends, receives, rank(), size()); };
    return request(call, check, [&] { return base_.all_to_all_v(sends, receives); });
  }

  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    using E = std::remove_const_t<T>;
    return detail::start_message(base_, state_, message<E>(detail::CallKind::send, in.shape(), to, tag),
                                 [&] { return base_.send(View<const E>(in), to, tag); });
  }

  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    touched(out);
    return detail::start_message(base_, state_, message<T>(detail::CallKind::recv, out.shape(), from, tag),
                                 [&] { return base_.recv(out, from, tag); });
  }

  void barrier() {
    compare(state_->open(detail::CallKind::barrier));
    base_.barrier();
  }
  [[nodiscard]] index_t agree(index_t value) {
    compare(state_->open(detail::CallKind::agree));
    return base_.agree(value);
  }
  void gather_words(std::span<const std::int64_t> mine, std::span<std::int64_t> all)
    requires OnDevice<C>
  {
    detail::CheckedCall& call = state_->open(detail::CallKind::gather_words);
    call.record.cols = static_cast<index_t>(mine.size());
    compare(call);
    base_.gather_words(mine, all);
  }
  void drain() {
    state_->check_thread(detail::CallKind::drain);
    base_.drain();
  }

  /// Colours and keys may differ between ranks.
  [[nodiscard]] std::optional<CheckedComm> split(int color, int key) {
    compare(state_->open(detail::CallKind::split));
    return wrap(base_.split(color, key), color);
  }
  [[nodiscard]] std::optional<CheckedComm> subset(int n) {
    detail::CheckedCall& call = state_->open(detail::CallKind::subset);
    call.record.root = n;
    compare(call);
    return wrap(base_.subset(n), 0);
  }

  /// Throws on all ranks, with the value of each, unless all give the same name (of which the first 31 characters
  /// count) and the same value to the bit. Communicates: a comparison.
  template <class S>
    requires(std::is_arithmetic_v<S> || is_complex_v<S>)
  void check_value(std::string_view name, S value) {
    detail::CheckedCall& call = state_->open(detail::CallKind::check_value);
    detail::set_value(call.record, name, value);
    compare(call);
  }

  /// Throws on all ranks unless all are about to compute the same product; matmul calls it before it moves anything.
  /// Communicates: a comparison.
  void check_product(const ProductFacts& facts) {
    detail::CheckedCall& call = state_->open(detail::CallKind::product);
    detail::describe(call.record, facts);
    compare(call);
  }

  /// Says that the caller has written to the view, or means to sum it again as it is.
  template <class T>
  void touched(View<T> view) noexcept {
    state_->sums.touched(detail::bytes_of(view));
  }

  /// The last call: throws on all ranks if any makes another one instead. Communicates: a comparison.
  void close() { compare(state_->open(detail::CallKind::close)); }

  /// This thread makes all calls from here on. Pre: no other thread is in a call.
  void adopt() noexcept { state_->adopt(); }
  /// As in CheckOptions, from the next wait on.
  void set_deadline(std::chrono::milliseconds deadline) noexcept { state_->options.deadline = deadline; }
  /// The latest 256 calls of this rank, over all communicators split from one; a line for each.
  [[nodiscard]] std::string events() const { return state_->log->text(); }

  void abort(const std::string& reason) { base_.abort(reason); }
  [[nodiscard]] Memory allocate(std::size_t bytes) { return base_.allocate(bytes); }

 private:
  CheckedComm(C base, std::string text, std::uint64_t id, std::shared_ptr<detail::EventLog> log, CheckOptions options)
      : base_(std::move(base)),
        state_(std::make_shared<detail::CheckedState>(base_.rank(), base_.size(), std::move(text), id, std::move(log),
                                                      options)) {
    state_->sums.read_by(detail::reader_of(base_));
    if constexpr (CarriesInspections<C>) {
      base_.keep(state_);
      if (size() > 1) base_.barrier();
      for (int m = 0; m < size(); ++m) {
        state_->peers.push_back(std::static_pointer_cast<detail::CheckedState>(base_.kept_by(m))->log);
      }
    }
  }

  /// Named by who splits it, how often, and the colour: the same on all of its ranks.
  [[nodiscard]] std::optional<CheckedComm> wrap(std::optional<C> part, int color) {
    const std::uint64_t number = ++state_->splits;
    if (!part) return std::nullopt;
    std::string text = state_->text + " / split " + std::to_string(number) + " colour " + std::to_string(color);
    const std::uint64_t id = detail::hash_text(text);
    return CheckedComm(*std::move(part), std::move(text), id, state_->log, state_->options);
  }

  template <class T>
  [[nodiscard]] detail::CheckedCall& open(detail::CallKind kind, Shape shape, int root) {
    detail::CheckedCall& call = state_->open(kind);
    describe<T>(call.record, shape, root);
    return call;
  }
  template <class T>
  static void describe(detail::CallRecord& record, Shape shape, int root) noexcept {
    record.type = detail::type_code<T>();
    record.type_bytes = sizeof(T);
    record.rows = shape.rows;
    record.cols = shape.cols;
    record.root = root;
  }
  template <class T>
  [[nodiscard]] detail::CallRecord message(detail::CallKind kind, Shape shape, int peer, int tag) {
    state_->check_thread(kind);
    detail::CallRecord record;
    record.kind = kind;
    record.communicator = state_->id;
    record.sequence = state_->sequence;
    describe<T>(record, shape, peer);
    record.tag = tag;
    return record;
  }

  template <class Check, class Begin>
  [[nodiscard]] Request request(detail::CheckedCall& call, Check check, Begin begin,
                                const detail::ByteRows& summed = {}) {
    return Request(start(call, check, begin), state_, &call, summed);
  }

  template <class Check, class Begin>
  [[nodiscard]] auto start(detail::CheckedCall& call, Check check, Begin begin) {
    return detail::start_checked(base_, state_, call, check, begin);
  }
  void compare(detail::CheckedCall& call) { detail::compare_only(base_, state_, call); }

  C base_;
  std::shared_ptr<detail::CheckedState> state_;
};

}  // namespace partita
