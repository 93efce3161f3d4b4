// SPDX-License-Identifier: Apache-2.0
// A communicator of devices for host views, so that the laws run: what a call names goes to the device, with its gaps,
// and comes back when the call is waited for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partita/comm/concepts.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita {

/// Host memory of one call and its images on the device. Views that overlap share one image.
class CudaMirror {
 public:
  template <class T>
  void add(View<T> v) {
    if (!reachable(v)) return;
    const auto* begin = reinterpret_cast<const std::byte*>(v.data);
    const auto* end =
        begin + static_cast<std::size_t>((v.rows - 1) * (v.rows == 1 ? v.cols : v.ld) + v.cols) * sizeof(T);
    Image image{begin, end, !std::is_const_v<T>, {}};
    for (auto i = images_.begin(); i != images_.end();) {
      if (i->begin < image.end && image.begin < i->end) {
        image = {std::min(i->begin, image.begin), std::max(i->end, image.end), i->written || image.written, {}};
        i = images_.erase(i);
      } else {
        ++i;
      }
    }
    images_.push_back(std::move(image));
  }
  template <class C>
  void upload(C& comm) {
    timeline_ = comm.timeline();
    for (Image& image : images_) {
      image.memory = comm.allocate(image.bytes());
      timeline_->before_compute({cuda_write(image.memory.get(), image.bytes())});
      detail::cuda_check(
          cudaMemcpyAsync(image.memory.get(), image.begin, image.bytes(), cudaMemcpyHostToDevice, timeline_->compute()),
          "cudaMemcpyAsync");
    }
  }
  template <class T>
  [[nodiscard]] View<T> operator()(View<T> v) const {
    for (const Image& image : images_) {
      const auto* at = reinterpret_cast<const std::byte*>(v.data);
      if (!reachable(v) || at < image.begin || at >= image.end) continue;
      return {reinterpret_cast<T*>(image.memory.get() + (at - image.begin)), v.rows, v.cols, v.ld};
    }
    return v;
  }
  void download() {
    for (const Image& image : images_) {
      if (!image.written) continue;
      CudaAccess access = cuda_write(image.memory.get(), image.bytes());
      access.writes = false;
      timeline_->before_compute({access});
      detail::cuda_check(cudaMemcpyAsync(const_cast<std::byte*>(image.begin), image.memory.get(), image.bytes(),
                                         cudaMemcpyDeviceToHost, timeline_->compute()),
                         "cudaMemcpyAsync");
    }
    if (timeline_ != nullptr) timeline_->sync();
    images_.clear();
  }

 private:
  struct Image {
    const std::byte* begin;
    const std::byte* end;
    bool written;
    Memory memory;
    [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  };
  template <class T>
  [[nodiscard]] static bool reachable(View<T> v) {
    return !v.empty() && v.data != nullptr && (v.rows == 1 || v.ld >= v.cols);
  }

  std::shared_ptr<CudaTimeline> timeline_;
  std::vector<Image> images_;
};

template <class C>
class MirroredComm {
 public:
  class Request {
   public:
    Request() = default;
    Request(typename C::Request base, CudaMirror mirror)
        : mirror_(std::make_unique<CudaMirror>(std::move(mirror))), base_(std::move(base)) {}
    void wait() {
      base_.wait();
      if (mirror_ != nullptr) mirror_->download();
    }

   private:
    std::unique_ptr<CudaMirror> mirror_;
    typename C::Request base_;
  };
  template <class T>
  class Panel {
   public:
    Panel(typename C::template Panel<T> base, CudaMirror mirror, View<const T> seen)
        : mirror_(std::make_unique<CudaMirror>(std::move(mirror))), base_(std::move(base)), seen_(seen) {}
    void wait() {
      base_.wait();
      mirror_->download();
    }
    [[nodiscard]] View<const T> view() const { return seen_; }
    void release() { base_.release(); }

   private:
    std::unique_ptr<CudaMirror> mirror_;
    typename C::template Panel<T> base_;
    View<const T> seen_;
  };
  static constexpr bool panels_in_place = false;
  static constexpr bool messages_in_order = partita::messages_in_order<C>;

  explicit MirroredComm(C& base) : base_(&base) {}
  explicit MirroredComm(C&& base) : own_(std::make_unique<C>(std::move(base))), base_(own_.get()) {}

  [[nodiscard]] int rank() const { return base_->rank(); }
  [[nodiscard]] int size() const { return base_->size(); }
  template <class T>
  Request broadcast(View<T> out, int root) {
    return mirrored([&](const CudaMirror& on) { return base_->broadcast(on(out), root); }, out);
  }
  template <class T>
  Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    CudaMirror mirror;
    const bool lends = rank() == root;
    if (lends) mirror.add(in);
    if (!lends) mirror.add(out);
    mirror.upload(*base_);
    auto panel = base_->template broadcast_panel<T>(lends ? mirror(in) : in, lends ? out : mirror(out), root);
    return Panel<T>(std::move(panel), std::move(mirror), lends ? in : View<const T>(out));
  }
  template <class T>
  Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root, Into into = Into::overwrite) {
    return mirrored([&](const CudaMirror& on) { return base_->template reduce<T>(on(in), on(out), root, into); }, in,
                    out);
  }
  template <class T>
  Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    return mirrored([&](const CudaMirror& on) { return base_->template all_reduce<T>(on(in), on(out), op); }, in, out);
  }
  template <class T>
  Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    return mirrored([&](const CudaMirror& on) { return base_->template reduce_scatter<T>(on(in), on(out), blocks); },
                    in, out);
  }
  template <class T>
  Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    return mirrored([&](const CudaMirror& on) { return base_->template all_gather<T>(on(in), on(out), blocks); }, in,
                    out);
  }
  template <class T>
  Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends, std::span<const View<T>> receives) {
    CudaMirror mirror;
    for (const auto& v : sends) mirror.add(v);
    for (const auto& v : receives) mirror.add(v);
    mirror.upload(*base_);
    std::vector<View<const T>> from;
    std::vector<View<T>> to;
    for (const auto& v : sends) from.push_back(mirror(v));
    for (const auto& v : receives) to.push_back(mirror(v));
    auto request = base_->template all_to_all_v<T>(std::span<const View<const T>>(from), std::span<const View<T>>(to));
    return Request(std::move(request), std::move(mirror));  // the spans end here: they were for the call
  }
  template <class T>
  Request send(View<T> in, int to, int tag) {
    const View<const T> read = in;
    return mirrored([&](const CudaMirror& on) { return base_->send(on(read), to, tag); }, read);
  }
  template <class T>
  Request recv(View<T> out, int from, int tag) {
    return mirrored([&](const CudaMirror& on) { return base_->recv(on(out), from, tag); }, out);
  }
  void barrier() { base_->barrier(); }
  [[nodiscard]] index_t agree(index_t value) { return base_->agree(value); }
  void drain() { base_->drain(); }
  [[nodiscard]] std::optional<MirroredComm> split(int color, int key) { return wrap(base_->split(color, key)); }
  [[nodiscard]] std::optional<MirroredComm> subset(int n) { return wrap(base_->subset(n)); }
  void abort(const std::string& reason) { base_->abort(reason); }
  [[nodiscard]] Memory allocate(std::size_t bytes) { return base_->allocate(bytes); }
  [[nodiscard]] Traffic traffic() const { return base_->traffic(); }
  [[nodiscard]] C& base() { return *base_; }

 private:
  template <class Call, class... V>
  Request mirrored(Call call, V... views) {
    CudaMirror mirror;
    (mirror.add(views), ...);
    mirror.upload(*base_);
    auto request = call(mirror);
    return Request(std::move(request), std::move(mirror));
  }
  [[nodiscard]] static std::optional<MirroredComm> wrap(std::optional<C> part) {
    if (!part) return std::nullopt;
    return MirroredComm(*std::move(part));
  }

  std::unique_ptr<C> own_;
  C* base_;
};

}  // namespace partita
