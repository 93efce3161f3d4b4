// SPDX-License-Identifier: Apache-2.0
// A communicator whose allocations fail when asked to, and are counted: a decorator for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "partita/base/error.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::test {

/// What a rank's allocations do, over all communicators split from one.
struct AllocationPlan {
  /// How many more allocations succeed.
  index_t left = std::numeric_limits<index_t>::max();
  index_t count = 0;
  index_t bytes = 0;
};

template <class Base>
class FailingComm {
 public:
  using Request = typename Base::Request;
  template <class T>
  using Panel = typename Base::template Panel<T>;
  static constexpr bool panels_in_place = Base::panels_in_place;

  explicit FailingComm(Base base) : base_(std::move(base)), plan_(std::make_shared<AllocationPlan>()) {}

  [[nodiscard]] AllocationPlan& allocations() noexcept { return *plan_; }
  /// Where views hold addresses of a device.
  [[nodiscard]] decltype(auto) timeline() const noexcept
    requires OnDevice<Base>
  {
    return base_.timeline();
  }

  [[nodiscard]] Memory allocate(std::size_t bytes) {
    if (plan_->left <= 0) throw CapacityError("CapacityError: no memory, says the test");
    --plan_->left;
    ++plan_->count;
    plan_->bytes += static_cast<index_t>(bytes);
    return base_.allocate(bytes);
  }

  [[nodiscard]] int rank() const { return base_.rank(); }
  [[nodiscard]] int size() const { return base_.size(); }
  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    return base_.broadcast(out, root);
  }
  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    return base_.template broadcast_panel<T>(in, out, root);
  }
  template <class T>
  [[nodiscard]] Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root,
                               Into into = Into::overwrite) {
    return base_.template reduce<T>(in, out, root, into);
  }
  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    return base_.template all_reduce<T>(in, out, op);
  }
  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    return base_.template reduce_scatter<T>(in, out, blocks);
  }
  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    return base_.template all_gather<T>(in, out, blocks);
  }
  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    return base_.template all_to_all_v<T>(sends, receives);
  }
  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    return base_.template send<std::remove_const_t<T>>(in, to, tag);
  }
  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    return base_.template recv<T>(out, from, tag);
  }
  void barrier() { base_.barrier(); }
  [[nodiscard]] index_t agree(index_t value) { return base_.agree(value); }
  void gather_words(std::span<const std::int64_t> mine, std::span<std::int64_t> all)
    requires OnDevice<Base>
  {
    base_.gather_words(mine, all);
  }
  void drain() { base_.drain(); }
  [[nodiscard]] std::optional<FailingComm> split(int color, int key) { return wrap(base_.split(color, key)); }
  [[nodiscard]] std::optional<FailingComm> subset(int n) { return wrap(base_.subset(n)); }
  void abort(const std::string& reason) { base_.abort(reason); }
  [[nodiscard]] Traffic traffic() const { return base_.traffic(); }

 private:
  FailingComm(Base base, std::shared_ptr<AllocationPlan> plan) : base_(std::move(base)), plan_(std::move(plan)) {}
  [[nodiscard]] std::optional<FailingComm> wrap(std::optional<Base> part) {
    if (!part) return std::nullopt;
    return FailingComm(*std::move(part), plan_);
  }

  Base base_;
  std::shared_ptr<AllocationPlan> plan_;
};

}  // namespace partita::test
