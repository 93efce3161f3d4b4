// SPDX-License-Identifier: Apache-2.0
// A communicator whose panels are copied into the caller's buffer, as a network's would be: a decorator for tests.
#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "partita/comm/concepts.hpp"

namespace partita::test {

/// While a panel is under way its buffer holds garbage (all bits set: a NaN in every type), so that whoever still reads
/// the buffer's previous panel, or reads the new one too early, gets wrong numbers.
template <class Base>
class CopyingComm {
 public:
  using Request = typename Base::Request;

  template <class T>
  class Panel {
   public:
    Panel(typename Base::template Panel<T> base, View<T> buffer, bool root)
        : base_(std::move(base)), buffer_(buffer), root_(root) {}
    void wait() {
      base_.wait();
      if (root_ || arrived_) return;
      const View<const T> from = base_.view();
      for (index_t i = 0; i < from.rows && !from.empty(); ++i) {
        for (index_t j = 0; j < from.cols; ++j) buffer_(i, j) = from(i, j);
      }
      base_.release();
      arrived_ = true;
    }
    [[nodiscard]] View<const T> view() const { return root_ ? base_.view() : View<const T>(buffer_); }
    void release() {
      if (!arrived_) base_.release();
      arrived_ = true;
    }

   private:
    typename Base::template Panel<T> base_;
    View<T> buffer_;
    bool root_;
    bool arrived_ = false;
  };

  explicit CopyingComm(Base base) : base_(std::move(base)) {}

  static constexpr bool panels_in_place = false;

  [[nodiscard]] int rank() const { return base_.rank(); }
  [[nodiscard]] int size() const { return base_.size(); }
  [[nodiscard]] Base& base() { return base_; }
  [[nodiscard]] const Base& base() const { return base_; }

  template <class T>
  Panel<T> broadcast_panel(View<const T> in, View<T> buffer, int root) {
    const bool is_root = rank() == root;
    for (index_t i = 0; !is_root && i < buffer.rows && !buffer.empty(); ++i) {
      std::memset(static_cast<void*>(buffer.row(i)), 0xff, static_cast<std::size_t>(buffer.cols) * sizeof(T));
    }
    return Panel<T>(base_.template broadcast_panel<T>(in, buffer, root), buffer, is_root);
  }

  template <class T>
  Request broadcast(View<T> data, int root) {
    return base_.template broadcast<T>(data, root);
  }
  template <class T>
  Request reduce(View<const T> in, View<T> out, int root, Into into) {
    return base_.template reduce<T>(in, out, root, into);
  }
  template <class T>
  Request all_reduce(View<const T> in, View<T> out, ReduceOp op) {
    return base_.template all_reduce<T>(in, out, op);
  }
  template <class T>
  Request reduce_scatter(View<const T> in, View<T> out, std::span<const Block> blocks) {
    return base_.template reduce_scatter<T>(in, out, blocks);
  }
  template <class T>
  Request all_gather(View<const T> in, View<T> out, std::span<const Block> blocks) {
    return base_.template all_gather<T>(in, out, blocks);
  }
  template <class T>
  Request all_to_all_v(std::span<const View<const T>> sends, std::span<const View<T>> receives) {
    return base_.template all_to_all_v<T>(sends, receives);
  }
  template <class T>
  Request send(View<const T> in, int dest, int tag) {
    return base_.send(in, dest, tag);
  }
  template <class T>
  Request recv(View<T> out, int source, int tag) {
    return base_.recv(out, source, tag);
  }
  void barrier() { base_.barrier(); }
  index_t agree(index_t value) { return base_.agree(value); }
  void drain() { base_.drain(); }
  std::optional<CopyingComm> split(int color, int key) { return wrap(base_.split(color, key)); }
  std::optional<CopyingComm> subset(int n) { return wrap(base_.subset(n)); }
  void abort(const std::string& reason) { base_.abort(reason); }
  Memory allocate(std::size_t bytes) { return base_.allocate(bytes); }
  [[nodiscard]] Traffic traffic() const { return base_.traffic(); }

 private:
  static std::optional<CopyingComm> wrap(std::optional<Base> base) {
    if (!base) return std::nullopt;
    return CopyingComm(std::move(*base));
  }

  Base base_;
};

}  // namespace partita::test
