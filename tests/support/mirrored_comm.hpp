// SPDX-License-Identifier: Apache-2.0
// A communicator of device memory as one of host memory, so that the laws run on it: a decorator for tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partita/backend/cuda.hpp"
#include "partita/comm/concepts.hpp"

namespace partita::test {

/// Host memory that views of one call name, and its image on the device: what overlaps on the host does there too.
class Mirror {
 public:
  explicit Mirror(CudaBackend& backend) : backend_(backend) {}

  template <class T>
  void name(View<T> v) {
    if (v.empty() || v.data == nullptr || (v.rows > 1 && v.ld < v.cols)) return;
    const auto* first = reinterpret_cast<const std::byte*>(v.data);
    const auto bytes = static_cast<std::size_t>((v.rows - 1) * v.ld + v.cols) * sizeof(T);
    Part part{first, first + bytes, {}};
    for (Part& known : parts_) {
      if (known.end <= part.begin || part.end <= known.begin) continue;
      part.begin = std::min(part.begin, known.begin);
      part.end = std::max(part.end, known.end);
      known.begin = known.end = nullptr;
    }
    std::erase_if(parts_, [](const Part& known) { return known.begin == nullptr; });
    parts_.push_back(std::move(part));
  }
  /// Copies all that was named.
  void load() {
    for (Part& part : parts_) {
      const auto bytes = static_cast<std::size_t>(part.end - part.begin);
      part.memory = CudaMemory(bytes, backend_.timeline()->compute());
      backend_.copy<std::byte>(row_view(part.begin, static_cast<index_t>(bytes)), image(part));
    }
  }
  /// The view of the image; that of memory that was not named stays as it is.
  template <class T>
  [[nodiscard]] View<T> at(View<T> v) const {
    for (const Part& part : parts_) {
      const auto* first = reinterpret_cast<const std::byte*>(v.data);
      if (v.empty() || first < part.begin || first >= part.end) continue;
      auto* moved = static_cast<std::byte*>(part.memory.data()) + (first - part.begin);
      return View<T>(reinterpret_cast<T*>(moved), v.rows, v.cols, v.ld);
    }
    return v;
  }
  /// Brings a view's elements back.
  template <class T>
  void store(View<T> v) const {
    if (!v.empty() && at(v).data != v.data) backend_.copy<T>(View<const T>(at(v)), v);
  }
  ~Mirror() {
    for (Part& part : parts_) {
      if (part.memory.data() != nullptr) backend_.timeline()->before_compute({cuda_access(image(part))});
    }
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

 private:
  struct Part {
    const std::byte* begin;
    const std::byte* end;
    CudaMemory memory;
  };
  static View<std::byte> image(const Part& part) {
    return row_view(static_cast<std::byte*>(part.memory.data()), static_cast<index_t>(part.end - part.begin));
  }

  CudaBackend& backend_;
  std::vector<Part> parts_;
};

template <class Base>
class MirroredComm {
 public:
  class Request {
   public:
    Request() = default;
    Request(typename Base::Request base, std::function<void()> store)
        : base_(std::move(base)), store_(std::move(store)) {}
    void wait() {
      base_.wait();
      if (const auto store = std::exchange(store_, nullptr)) store();
    }

   private:
    typename Base::Request base_;
    std::function<void()> store_;
  };
  template <class T>
  class Panel {
   public:
    Panel(std::shared_ptr<CudaBackend> backend, typename Base::template Panel<T> base, View<const T> in, View<T> out,
          bool root)
        : backend_(std::move(backend)), base_(std::move(base)), in_(in), out_(out), root_(root) {}
    void wait() {
      base_.wait();
      if (!root_) backend_->template copy<T>(base_.view(), out_);
    }
    [[nodiscard]] View<const T> view() const { return root_ ? in_ : View<const T>(out_); }
    void release() { base_.release(); }

   private:
    std::shared_ptr<CudaBackend> backend_;
    typename Base::template Panel<T> base_;
    View<const T> in_;
    View<T> out_;
    bool root_;
  };
  static constexpr bool panels_in_place = Base::panels_in_place;

  explicit MirroredComm(Base base)
      : base_(std::move(base)), backend_(std::make_shared<CudaBackend>(base_.timeline(), small())) {}

  [[nodiscard]] int rank() const { return base_.rank(); }
  [[nodiscard]] int size() const { return base_.size(); }

  template <class T>
  Request broadcast(View<T> out, int root) {
    const auto m = mirror(out);
    auto request = base_.template broadcast<T>(m->at(out), root);
    return {std::move(request), [m, out] { m->store(out); }};
  }
  template <class T>
  Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    const auto m = mirror(in, out);
    auto panel = base_.template broadcast_panel<T>(m->at(in), m->at(out), root);
    lent_.push_back(m);
    return Panel<T>(backend_, std::move(panel), in, out, rank() == root);
  }
  template <class T>
  Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root, Into into = Into::overwrite) {
    const auto m = mirror(in, out);
    auto request = base_.template reduce<T>(m->at(in), m->at(out), root, into);
    return {std::move(request), [m, out, stores = rank() == root] {
              if (stores) m->store(out);
            }};
  }
  template <class T>
  Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    const auto m = mirror(in, out);
    auto request = base_.template all_reduce<T>(m->at(in), m->at(out), op);
    return {std::move(request), [m, out] { m->store(out); }};
  }
  template <class T>
  Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    const auto m = mirror(in, out);
    auto request = base_.template reduce_scatter<T>(m->at(in), m->at(out), blocks);
    return {std::move(request), [m, out] { m->store(out); }};
  }
  template <class T>
  Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    const auto m = mirror(in, out);
    auto request = base_.template all_gather<T>(m->at(in), m->at(out), blocks);
    return {std::move(request), [m, out] { m->store(out); }};
  }
  template <class T>
  Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends, std::span<const View<T>> receives) {
    const auto m = std::make_shared<Mirror>(*backend_);
    for (const auto& v : sends) m->name(v);
    for (const auto& v : receives) m->name(v);
    m->load();
    auto in = std::make_shared<std::vector<View<const T>>>();
    auto out = std::make_shared<std::vector<View<T>>>();
    for (const auto& v : sends) in->push_back(m->at(v));
    for (const auto& v : receives) out->push_back(m->at(v));
    auto request = base_.template all_to_all_v<T>(std::span<const View<const T>>(*in), std::span<const View<T>>(*out));
    return {std::move(request), [m, in, out, views = std::vector<View<T>>(receives.begin(), receives.end())] {
              for (const auto& v : views) m->store(v);
            }};
  }
  template <class T>
  Request send(View<T> in, int to, int tag) {
    const auto m = mirror(in);
    auto request = base_.send(View<const T>(m->at(in)), to, tag);
    return {std::move(request), [m] {}};
  }
  template <class T>
  Request recv(View<T> out, int from, int tag) {
    const auto m = mirror(out);
    auto request = base_.template recv<T>(m->at(out), from, tag);
    return {std::move(request), [m, out] { m->store(out); }};
  }
  void barrier() { base_.barrier(); }
  index_t agree(index_t value) { return base_.agree(value); }
  void drain() {
    base_.drain();
    lent_.clear();
  }
  std::optional<MirroredComm> split(int color, int key) { return wrap(base_.split(color, key)); }
  std::optional<MirroredComm> subset(int n) { return wrap(base_.subset(n)); }
  void abort(const std::string& reason) { base_.abort(reason); }
  Memory allocate(std::size_t bytes) { return base_.allocate(bytes); }
  [[nodiscard]] Traffic traffic() const { return base_.traffic(); }

 private:
  static CudaOptions small() {
    CudaOptions options;
    options.workspace_bytes = 4096;
    return options;
  }
  static std::optional<MirroredComm> wrap(std::optional<Base> base) {
    if (!base) return std::nullopt;
    return MirroredComm(*std::move(base));
  }
  template <class... T>
  std::shared_ptr<Mirror> mirror(View<T>... views) {
    auto m = std::make_shared<Mirror>(*backend_);
    (m->name(views), ...);
    m->load();
    return m;
  }

  Base base_;
  std::shared_ptr<CudaBackend> backend_;
  std::vector<std::shared_ptr<Mirror>> lent_;
};

}  // namespace partita::test
