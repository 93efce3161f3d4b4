// SPDX-License-Identifier: Apache-2.0
// A communicator of devices for host views, so that the laws run on it: what a call names goes to the device, with its
// gaps, and comes back when the call is waited for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/comm/concepts.hpp"
#include "partita/cuda/timeline.hpp"

namespace partita::test {

/// Host memory that some views name, and its images on the device. Views that overlap share one image.
class Mirror {
 public:
  /// What is not const comes back by store().
  template <class T>
  void name(View<T> v) {
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
  /// Copies all that was named to memory of the communicator's device.
  template <class C>
  void load(C& comm) {
    timeline_ = comm.timeline();
    for (Image& image : images_) {
      image.memory = comm.allocate(image.bytes());
      timeline_->before_compute({cuda_write(image.memory.get(), image.bytes())});
      detail::cuda_check(
          cudaMemcpyAsync(image.memory.get(), image.begin, image.bytes(), cudaMemcpyHostToDevice, timeline_->compute()),
          "cudaMemcpyAsync");
    }
  }
  /// The view in the image; that of memory that was not named stays as it is.
  template <class T>
  [[nodiscard]] View<T> at(View<T> v) const {
    for (const Image& image : images_) {
      const auto* at = reinterpret_cast<const std::byte*>(v.data);
      if (!reachable(v) || at < image.begin || at >= image.end) continue;
      return {reinterpret_cast<T*>(image.memory.get() + (at - image.begin)), v.rows, v.cols, v.ld};
    }
    return v;
  }
  /// Brings back all that may have been written, gaps and all.
  void store() const {
    for (const Image& image : images_) {
      if (image.written)
        timeline_->read(cuda_write(image.memory.get(), image.bytes()), const_cast<std::byte*>(image.begin));
    }
  }
  void clear() noexcept { images_.clear(); }

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
    Request(typename C::Request base, Mirror mirror)
        : mirror_(std::make_unique<Mirror>(std::move(mirror))), base_(std::move(base)) {}
    void wait() {
      base_.wait();
      if (const auto mirror = std::move(mirror_)) mirror->store();
    }

   private:
    std::unique_ptr<Mirror> mirror_;
    typename C::Request base_;
  };
  template <class T>
  class Panel {
   public:
    Panel(typename C::template Panel<T> base, Mirror mirror, std::shared_ptr<CudaTimeline> timeline, View<const T> in,
          View<T> out, bool lends)
        : mirror_(std::make_unique<Mirror>(std::move(mirror))),
          base_(std::move(base)),
          timeline_(std::move(timeline)),
          in_(in),
          out_(out),
          lends_(lends) {}
    void wait() {
      base_.wait();
      if (lends_) return;
      if constexpr (panels_in_place) {
        const View<const T> seen = base_.view();
        std::vector<T> values(static_cast<std::size_t>(seen.size()));
        timeline_->read(cuda_access(seen), reinterpret_cast<std::byte*>(values.data()));
        for (index_t i = 0; i < out_.rows; ++i) std::copy_n(values.data() + i * seen.cols, seen.cols, out_.row(i));
      } else {
        mirror_->store();
      }
    }
    [[nodiscard]] View<const T> view() const { return lends_ ? in_ : View<const T>(out_); }
    void release() { base_.release(); }

   private:
    std::unique_ptr<Mirror> mirror_;
    typename C::template Panel<T> base_;
    std::shared_ptr<CudaTimeline> timeline_;
    View<const T> in_;
    View<T> out_;
    bool lends_;
  };
  static constexpr bool panels_in_place = C::panels_in_place;
  static constexpr bool messages_in_order = partita::messages_in_order<C>;

  /// Of the caller's communicator, or one of its own.
  explicit MirroredComm(C& base) : base_(&base) {}
  explicit MirroredComm(C&& base) : own_(std::make_unique<C>(std::move(base))), base_(own_.get()) {}

  [[nodiscard]] int rank() const { return base_->rank(); }
  [[nodiscard]] int size() const { return base_->size(); }
  template <class T>
  Request broadcast(View<T> out, int root) {
    return mirrored([&](const Mirror& on) { return base_->broadcast(on.at(out), root); }, out);
  }
  template <class T>
  Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    Mirror mirror;
    const bool lends = rank() == root;
    if (lends) mirror.name(in);
    if (!lends && !panels_in_place) mirror.name(out);
    mirror.load(*base_);
    auto panel = base_->template broadcast_panel<T>(lends ? mirror.at(in) : in, lends ? out : mirror.at(out), root);
    return Panel<T>(std::move(panel), std::move(mirror), base_->timeline(), in, out, lends);
  }
  template <class T>
  Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root, Into into = Into::overwrite) {
    return mirrored([&](const Mirror& on) { return base_->template reduce<T>(on.at(in), on.at(out), root, into); }, in,
                    out);
  }
  template <class T>
  Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    return mirrored([&](const Mirror& on) { return base_->template all_reduce<T>(on.at(in), on.at(out), op); }, in,
                    out);
  }
  template <class T>
  Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    return mirrored([&](const Mirror& on) { return base_->template reduce_scatter<T>(on.at(in), on.at(out), blocks); },
                    in, out);
  }
  template <class T>
  Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    return mirrored([&](const Mirror& on) { return base_->template all_gather<T>(on.at(in), on.at(out), blocks); }, in,
                    out);
  }
  template <class T>
  Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends, std::span<const View<T>> receives) {
    Mirror mirror;
    for (const auto& v : sends) mirror.name(v);
    for (const auto& v : receives) mirror.name(v);
    mirror.load(*base_);
    std::vector<View<const T>> from;
    std::vector<View<T>> to;
    for (const auto& v : sends) from.push_back(mirror.at(v));
    for (const auto& v : receives) to.push_back(mirror.at(v));
    auto request = base_->template all_to_all_v<T>(std::span<const View<const T>>(from), std::span<const View<T>>(to));
    return Request(std::move(request), std::move(mirror));  // the spans end here: they were for the call
  }
  template <class T>
  Request send(View<T> in, int to, int tag) {
    const View<const T> read = in;
    return mirrored([&](const Mirror& on) { return base_->send(on.at(read), to, tag); }, read);
  }
  template <class T>
  Request recv(View<T> out, int from, int tag) {
    return mirrored([&](const Mirror& on) { return base_->recv(on.at(out), from, tag); }, out);
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
    Mirror mirror;
    (mirror.name(views), ...);
    mirror.load(*base_);
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

}  // namespace partita::test
