// SPDX-License-Identifier: Apache-2.0
// CudaThreadComm: the communicator of several ranks on one GPU, each a thread with streams of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "partita/comm/agree.hpp"
#include "partita/comm/cuda_thread/message.hpp"
#include "partita/comm/cuda_thread/panel.hpp"

namespace partita {

/// A rank of `launch_on_device` (comm/cuda_thread/launch.hpp), or of a communicator split from one. Views hold
/// addresses of the one device. It belongs to the thread of its rank, which has this device current in every call, as
/// do its requests and panels; it may be moved, not copied.
///
/// Order. An operation returns once its peers have called it too, and no stream is waited for: streams wait for each
/// other, where they touch the same memory. What the rank's timeline orders (CudaBackend's calls do) may follow at
/// once, as may frees of memory from allocate(). Since calls wait for peers, operations of several communicators must
/// be begun in one order on all their ranks. Nothing is allocated for a collective; up to 64 ranks.
///
/// Traffic. Counted by the rule of Traffic, also where panels are read in place and nothing is copied.
///
/// Failure. As with ThreadComm, which moves what hosts tell each other. After a failure, memory from allocate() stays
/// until the last rank's communicator is gone; memory of the user's own, lent or named in an operation that failed,
/// must outlive the streams' work: cudaDeviceSynchronize() before it is freed. Also CudaError, from the call in whose
/// time a library failed; it fails the launch.
class CudaThreadComm {
 public:
  using Request = CudaThreadRequest;
  template <class T>
  using Panel = CudaThreadPanel<T>;
  static constexpr bool panels_in_place = true;

  /// For ranks that are threads. Collective. Errors, on all ranks: ArgumentError where they have different devices
  /// current, or are more than 64. Throws CudaError, NoDeviceError.
  explicit CudaThreadComm(ThreadComm host) : end_(join(std::move(host))) {}

  [[nodiscard]] int rank() const noexcept { return end_->rank(); }
  [[nodiscard]] int size() const noexcept { return end_->size(); }
  [[nodiscard]] const std::shared_ptr<CudaTimeline>& timeline() const noexcept { return end_->me->timeline; }

  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    check_root("broadcast", root);
    detail::check_view("broadcast", "the buffer", out);
    begin<T>("broadcast", root, out.size());
    detail::run_broadcast<T>(*end_, out, root);
    return {};
  }

  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    check_root("broadcast_panel", root);
    if (rank() == root) detail::check_view("broadcast_panel", "the lent block", in);
    begin<T>("broadcast_panel", root, rank() == root ? in.size() : out.size());
    return detail::lend_panel<T>(end_, in, out, root);
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
    begin<T>("reduce", root, in.size());
    detail::run_reduce<T>(*end_, in, out, root, into);
    return {};
  }

  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    detail::check_reduction<T>("all_reduce", op);
    detail::check_view("all_reduce", "the input", in);
    detail::check_view("all_reduce", "the output", out);
    detail::check_shape("all_reduce", "the output", out.shape(), in.shape());
    detail::check_same_or_apart<T>("all_reduce", in, out);
    begin<T>("all_reduce", -1, in.size());
    detail::run_all_reduce<T>(*end_, in, out, op);
    return {};
  }

  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    detail::check_reduction<T>("reduce_scatter", ReduceOp::sum);
    detail::check_view("reduce_scatter", "the input", in);
    detail::check_view("reduce_scatter", "the output", out);
    detail::check_blocks("reduce_scatter", blocks, rank(), size(), in.shape(), out.shape());
    detail::check_own_place<T>("reduce_scatter", out, in, blocks[static_cast<std::size_t>(rank())]);
    begin<T>("reduce_scatter", -1, in.size());
    detail::run_reduce_scatter<T>(*end_, in, out, blocks);
    return {};
  }

  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_view("all_gather", "the input", in);
    detail::check_view("all_gather", "the output", out);
    detail::check_blocks("all_gather", blocks, rank(), size(), out.shape(), in.shape());
    detail::check_own_place<T>("all_gather", in, out, blocks[static_cast<std::size_t>(rank())]);
    begin<T>("all_gather", -1, out.size());
    detail::run_all_gather<T>(*end_, in, out, blocks);
    return {};
  }

  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    detail::check_exchange<T>("all_to_all_v", sends, receives, rank(), size());
    index_t total = 0;
    for (const View<T>& v : receives) total += v.size();
    begin<T>("all_to_all_v", -1, total);
    detail::run_all_to_all_v<T>(*end_, sends, receives);
    return {};
  }

  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    using Element = std::remove_const_t<T>;
    check_message<Element>("send", "receiver", in, to);
    return detail::begin_send<Element>(end_, in, to, tag);
  }

  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    check_message<T>("recv", "sender", out, from);
    return detail::begin_receive<T>(end_, out, from, tag);
  }

  void barrier() { end_->host.barrier(); }
  [[nodiscard]] index_t agree(index_t value) { return end_->host.agree(value); }

  /// What hosts tell each other: all = the words of every rank, in rank order. Pre: as many on every rank.
  void gather_words(std::span<const std::int64_t> mine, std::span<std::int64_t> all) {
    const auto words = static_cast<index_t>(mine.size());
    std::vector<Block> places;
    for (int r = 0; r < size(); ++r) places.push_back({{0, 1}, {r * words, (r + 1) * words}});
    const detail::QuietScope quiet;
    end_->host
        .all_gather<std::int64_t>(row_view(mine.data(), words), row_view(all.data(), words * size()),
                                  std::span<const Block>(places))
        .wait();
  }

  /// Returns when all that this rank has lent is released by the hosts of its peers; work of this rank that writes it
  /// then waits for their streams.
  void drain() { detail::drain(*end_); }

  [[nodiscard]] std::optional<CudaThreadComm> split(int color, int key) { return wrap(end_->host.split(color, key)); }
  [[nodiscard]] std::optional<CudaThreadComm> subset(int n) { return wrap(end_->host.subset(n)); }

  void abort(const std::string& reason) { end_->host.abort(reason); }

  /// Memory of the device.
  [[nodiscard]] Memory allocate(std::size_t bytes) { return detail::allocate_beside_peers(end_->me, bytes); }

  /// Of this rank, over all communicators of the launch.
  [[nodiscard]] Traffic traffic() const noexcept { return end_->me->traffic; }

 private:
  explicit CudaThreadComm(std::shared_ptr<detail::CudaEndpoint> end) noexcept : end_(std::move(end)) {}

  [[nodiscard]] std::optional<CudaThreadComm> wrap(std::optional<ThreadComm> host) const {
    if (!host) return std::nullopt;
    return CudaThreadComm(std::make_shared<detail::CudaEndpoint>(*std::move(host), end_->me));
  }

  [[nodiscard]] static std::shared_ptr<detail::CudaEndpoint> join(ThreadComm host) {
    int device = 0;
    detail::cuda_check(cudaGetDevice(&device), "cudaGetDevice");
    if (host.agree(device) != -host.agree(-device)) {
      throw ArgumentError(
          "ArgumentError: CudaThreadComm of ranks with different devices current; it is for one device, and NcclComm "
          "for several");
    }
    if (host.size() > detail::most_summed) {
      throw ArgumentError("ArgumentError: CudaThreadComm of " + std::to_string(host.size()) +
                          " ranks; one device has " + "at most " + std::to_string(detail::most_summed));
    }
    // Rank 0 makes what all share; it waits until all have taken it.
    using Shared = std::shared_ptr<detail::CudaLaunch>;
    Shared launch;
    if (host.rank() == 0) launch = std::make_shared<detail::CudaLaunch>(host.size(), device);
    const Shared* from = &launch;
    {
      const detail::QuietScope quiet;
      host.broadcast(row_view(&from, 1), 0).wait();
      if (host.rank() != 0) launch = *from;
      host.barrier();
    }
    auto timeline = std::make_shared<CudaTimeline>(host.rank(), host.size());
    {
      const std::lock_guard lock(launch->mutex);
      launch->timelines[static_cast<std::size_t>(host.rank())] = timeline;
    }
    auto me = std::make_shared<detail::CudaRank>(detail::CudaRank{std::move(launch), std::move(timeline)});
    return std::make_shared<detail::CudaEndpoint>(std::move(host), std::move(me));
  }

  void check_root(const char* operation, int root) const { detail::check_member(operation, "root", root, size()); }

  template <class T>
  void check_message(const char* name, const char* role, View<const T> view, int peer) {
    detail::check_member(name, role, peer, size());
    detail::check_view(name, "the buffer", view);
    begin<T>(name, peer, view.size());
  }

  template <class T>
  void begin(const char* name, int root, index_t elements) const {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    emit({name, rank(), size(), root, elements, elements * static_cast<index_t>(sizeof(T))});
  }

  std::shared_ptr<detail::CudaEndpoint> end_;
};

static_assert(Communicator<CudaThreadComm>);

}  // namespace partita
