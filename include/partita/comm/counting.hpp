// SPDX-License-Identifier: Apache-2.0
// CountingComm: a communicator that counts what moves, from the arguments of its calls alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "partita/comm/checked/product.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/comm/traffic.hpp"

namespace partita {

/// Forwards everything to the communicator that it wraps, and counts by the rule of Traffic. It knows no schedule and
/// no transport, so it is the referee between the two. What is split from it adds to the same count: one for a rank.
template <class C>
class CountingComm {
 public:
  using Request = typename C::Request;
  template <class T>
  using Panel = typename C::template Panel<T>;
  using Lending = lending_t<C>;
  static constexpr bool panels_in_place = C::panels_in_place;
  static constexpr bool prefers_all_gather = partita::prefers_all_gather<C>;
  static constexpr bool prefers_cut_sums = partita::prefers_cut_sums<C>;
  static constexpr bool messages_in_order = partita::messages_in_order<C>;

  explicit CountingComm(C base) : base_(std::move(base)), count_(std::make_shared<detail::TrafficCount>()) {}

  [[nodiscard]] int rank() const noexcept { return base_.rank(); }
  [[nodiscard]] int size() const noexcept { return base_.size(); }
  [[nodiscard]] C& base() noexcept { return base_; }
  [[nodiscard]] auto compute_turn() { return partita::compute_turn(base_); }
  [[nodiscard]] bool share_work(bool (*ready)(void*), bool (*run)(void*), void* work)
    requires SharesWork<C>
  {
    return base_.share_work(ready, run, work);
  }
  [[nodiscard]] const C& base() const noexcept { return base_; }
  /// Where views hold addresses of a device.
  [[nodiscard]] decltype(auto) timeline() const noexcept
    requires OnDevice<C>
  {
    return base_.timeline();
  }
  /// Its own count; `base().traffic()` is that of the communicator that it wraps.
  [[nodiscard]] Traffic traffic() const noexcept { return count_->total; }

  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    Request request = base_.broadcast(out, root);
    if (rank() != root) count_->template message<T>(out.size());
    return request;
  }

  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    Panel<T> panel = base_.broadcast_panel(in, out, root);
    if (rank() != root) count_->template message<T>(out.size());
    return panel;
  }

  template <class T>
  [[nodiscard]] Lending lend(View<const T> in, Block place, Shape whole)
    requires LendsBlocks<C>
  {
    return base_.lend(in, place, whole);
  }
  template <class T>
  [[nodiscard]] Panel<T> panel_of(const Lending& lending, int root, Block part)
    requires LendsBlocks<C>
  {
    Panel<T> panel = base_.template panel_of<T>(lending, root, part);
    if (rank() != root) count_->template message<T>(part.size());
    return panel;
  }

  template <class T>
  [[nodiscard]] Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root,
                               Into into = Into::overwrite) {
    Request request = base_.reduce(in, out, root, into);
    if (rank() != root) count_->template message<T>(in.size());
    return request;
  }

  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    Request request = base_.all_reduce(in, out, op);
    count_->template all_reduce<T>(in.size(), rank(), size());
    return request;
  }

  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    Request request = base_.reduce_scatter(in, out, blocks);
    count_->template others<T>(blocks, rank());
    return request;
  }

  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    Request request = base_.all_gather(in, out, blocks);
    count_->template others<T>(blocks, rank());
    return request;
  }

  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    Request request = base_.all_to_all_v(sends, receives);
    count_->template others<T>(receives, rank());
    return request;
  }

  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    return base_.send(in, to, tag);
  }

  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    Request request = base_.recv(out, from, tag);
    if (rank() != from) count_->template message<T>(out.size());
    return request;
  }

  /// Where that communicator compares products.
  void check_product(const ProductFacts& facts)
    requires ComparesProducts<C>
  {
    base_.check_product(facts);
  }
  void barrier() { base_.barrier(); }
  [[nodiscard]] index_t agree(index_t value) { return base_.agree(value); }
  void gather_words(std::span<const std::int64_t> mine, std::span<std::int64_t> all)
    requires OnDevice<C>
  {
    base_.gather_words(mine, all);
  }
  void drain() { base_.drain(); }
  [[nodiscard]] std::optional<CountingComm> split(int color, int key) { return wrap(base_.split(color, key)); }
  [[nodiscard]] std::optional<CountingComm> subset(int n) { return wrap(base_.subset(n)); }
  void abort(const std::string& reason) { base_.abort(reason); }
  [[nodiscard]] Memory allocate(std::size_t bytes) { return base_.allocate(bytes); }

 private:
  CountingComm(C base, std::shared_ptr<detail::TrafficCount> shared)
      : base_(std::move(base)), count_(std::move(shared)) {}

  [[nodiscard]] std::optional<CountingComm> wrap(std::optional<C> part) {
    if (!part) return std::nullopt;
    return CountingComm(*std::move(part), count_);
  }

  C base_;
  std::shared_ptr<detail::TrafficCount> count_;
};

namespace detail {
/// A communicator of nothing but signatures, to check that the decorator models the concept over any other.
struct NoComm {
  struct Request {
    void wait() {}
  };
  template <class T>
  struct Panel {
    void wait() {}
    [[nodiscard]] View<const T> view() const { return {}; }
    void release() {}
  };
  static constexpr bool panels_in_place = false;
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  Request broadcast(auto, int) { return {}; }
  template <class T>
  Panel<T> broadcast_panel(View<const T>, View<T>, int) {
    return {};
  }
  Request reduce(auto, auto, int, Into) { return {}; }
  Request all_reduce(auto, auto, ReduceOp) { return {}; }
  Request reduce_scatter(auto, auto, std::span<const Block>) { return {}; }
  Request all_gather(auto, auto, std::span<const Block>) { return {}; }
  Request all_to_all_v(auto, auto) { return {}; }
  Request send(auto, int, int) { return {}; }
  Request recv(auto, int, int) { return {}; }
  void barrier() {}
  index_t agree(index_t value) { return value; }
  void drain() {}
  std::optional<NoComm> split(int, int) { return {}; }
  std::optional<NoComm> subset(int) { return {}; }
  void abort(const std::string&) {}
  Memory allocate(std::size_t) { return {}; }
  [[nodiscard]] Traffic traffic() const { return {}; }
};
}  // namespace detail

static_assert(Communicator<CountingComm<detail::NoComm>>);

}  // namespace partita
