// SPDX-License-Identifier: Apache-2.0
// NcclComm: the communicator among devices. An opt-in include: it needs the headers of CUDA and NCCL, and links with
// both and with cuBLAS; no compiler for kernels is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "partita/comm/arguments.hpp"
#include "partita/comm/concepts.hpp"
#include "partita/comm/cuda_memory.hpp"
#include "partita/comm/nccl/control.hpp"
#include "partita/comm/nccl/operations.hpp"
#include "partita/comm/nccl/request.hpp"
#include "partita/comm/thread/sum.hpp"
#include "partita/cuda/device.hpp"
#include "partita/trace/event.hpp"

namespace partita {

/// A rank with a device of its own, or of a communicator split from one. Views hold addresses of that device, which
/// must be current in every call. An NcclComm belongs to one thread, as do its requests and panels.
///
/// Order. Operations are on the communication stream of timeline(), in the order of the calls, and wait there for
/// arithmetic that touches the same memory, as arithmetic does for them: calls and wait() return before anything has
/// moved. Memory that the user's own streams or the host touch is his to order (timeline()->sync()). `blocks` and
/// spans of views are read by the call alone. barrier, agree and split make the host wait, for all communication that
/// has begun.
///
/// Messages begin together, when one of them is waited for or another operation begins, so that ranks may send to each
/// other. They are matched in order for each (sender, receiver), whatever their tags; tags are compared in messages of
/// a rank to itself alone. Two that have not begun must not write what the other touches (AliasError).
///
/// Sums are NCCL's: float, double, complex numbers, and integers of 1, 4 and 8 bytes (else ArgumentError). They have
/// the same bits on all ranks, and on each run with the same ranks, version and settings; not those of rank order.
/// Integers that accumulate in an output are added on the host, behind its back.
///
/// Failure. All waits of the host look for errors of NCCL, for failed peers (NcclOptions::listen) and at the deadline.
/// What goes wrong beside wrong arguments (NcclError, CudaError, TimeoutError, a message given up) and abort() abort
/// all communicators of the rank: every later call throws PeerFailed, with origin -1 where nobody told which rank it
/// was. Peers that nobody tells learn of it by NCCL or by their deadline. A rank that an exception leaves aborts what
/// it has under way when its last communicator ends: memory of the user's own that an operation names is to outlive
/// that, since cudaFree waits for the device.
///
/// Destruction is collective as the split was, and waits for peers up to the deadline; not while an exception unwinds
/// and not after a failure. Never throws.
class NcclComm {
 public:
  using Request = NcclRequest;
  template <class T>
  using Panel = NcclPanel<T>;
  static constexpr bool panels_in_place = false;
  /// Broadcasts and reductions to one rank are rings, where all others have faster ways.
  static constexpr bool prefers_all_gather = true;
  /// Communication has a stream of its own, and moves while the device multiplies.
  static constexpr bool prefers_cut_sums = true;
  static constexpr bool messages_in_order = true;

  /// Rank `rank` of `ranks` that have the same id, on the current device; collective. A timeline of that device may be
  /// given, which no other world of communicators uses. Errors: ArgumentError, NoDeviceError, CudaError, NcclError,
  /// TimeoutError where a rank does not come.
  NcclComm(const ncclUniqueId& id, int ranks, int rank, const NcclOptions& options = {},
           std::shared_ptr<CudaTimeline> timeline = nullptr) {
    if (ranks < 1 || rank < 0 || rank >= ranks) {
      throw ArgumentError("ArgumentError: NcclComm as rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                          "; it takes at least 1 rank, and ranks from 0 on");
    }
    static_cast<void>(cuda_device_count());
    if (timeline == nullptr) timeline = std::make_shared<CudaTimeline>();
    const auto world = std::make_shared<detail::NcclWorld>(rank, std::move(timeline), options);
    const auto make = [&](ncclComm_t* comm, ncclConfig_t* config) {
      return ncclCommInitRankConfig(comm, ranks, id, rank, config);
    };
    group_ = detail::make_nccl_group(world, "ncclCommInitRankConfig", nullptr, make);
  }

  [[nodiscard]] int rank() const noexcept { return group_->rank; }
  [[nodiscard]] int size() const noexcept { return group_->size; }
  /// Shared by all communicators of the rank, and by its backend.
  [[nodiscard]] const std::shared_ptr<CudaTimeline>& timeline() const noexcept { return world().timeline(); }

  template <class T>
  Request broadcast(View<T> out, int root) {
    check_root("broadcast", root);
    detail::check_view("broadcast", "the buffer", out);
    begin<T>("broadcast", root, out.size());
    detail::run_broadcast(*group_, out, root);
    return done();
  }

  template <class T>
  Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    check_root("broadcast_panel", root);
    const View<const T> seen = rank() == root ? in : View<const T>(out);
    detail::check_view("broadcast_panel", rank() == root ? "the lent block" : "the buffer", seen);
    begin<T>("broadcast_panel", root, seen.size());
    detail::run_broadcast(*group_, seen, root);
    return Panel<T>(seen, done());
  }

  template <class T>
  Request reduce(std::type_identity_t<View<const T>> in, View<T> out, int root, Into into = Into::overwrite) {
    detail::check_reduction<T>("reduce", ReduceOp::sum);
    const detail::NcclElement element = detail::nccl_element<T>("reduce");
    check_root("reduce", root);
    detail::check_view("reduce", "the input", in);
    if (rank() == root) {
      detail::check_view("reduce", "the output", out);
      detail::check_shape("reduce", "the output", out.shape(), in.shape());
      detail::check_same_or_apart<T>("reduce", in, out);
    }
    begin<T>("reduce", root, in.size());
    detail::run_reduce<T>(*group_, in, out, root, into, element);
    return done();
  }

  template <class T>
  Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    detail::check_reduction<T>("all_reduce", op);
    const detail::NcclElement element = detail::nccl_element<T>("all_reduce");
    detail::check_view("all_reduce", "the input", in);
    detail::check_view("all_reduce", "the output", out);
    detail::check_shape("all_reduce", "the output", out.shape(), in.shape());
    detail::check_same_or_apart<T>("all_reduce", in, out);
    begin<T>("all_reduce", -1, in.size());
    detail::run_all_reduce<T>(*group_, in, out, op, element);
    return done();
  }

  template <class T>
  Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_reduction<T>("reduce_scatter", ReduceOp::sum);
    const detail::NcclElement element = detail::nccl_element<T>("reduce_scatter");
    detail::check_view("reduce_scatter", "the input", in);
    detail::check_view("reduce_scatter", "the output", out);
    detail::check_blocks("reduce_scatter", blocks, rank(), size(), in.shape(), out.shape());
    detail::check_own_place<T>("reduce_scatter", out, in, blocks[static_cast<std::size_t>(rank())]);
    begin<T>("reduce_scatter", -1, in.size());
    detail::run_reduce_scatter<T>(*group_, in, out, blocks, element);
    return done();
  }

  template <class T>
  Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_view("all_gather", "the input", in);
    detail::check_view("all_gather", "the output", out);
    detail::check_blocks("all_gather", blocks, rank(), size(), out.shape(), in.shape());
    detail::check_own_place<T>("all_gather", in, out, blocks[static_cast<std::size_t>(rank())]);
    begin<T>("all_gather", -1, out.size());
    detail::run_all_gather<T>(*group_, in, out, blocks);
    return done();
  }

  template <class T>
  Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends, std::span<const View<T>> receives) {
    detail::check_exchange<T>("all_to_all_v", sends, receives, rank(), size());
    index_t total = 0;
    for (const View<T>& v : receives) total += v.size();
    begin<T>("all_to_all_v", -1, total);
    detail::run_exchange<T>(*group_, sends, receives);
    return done();
  }

  template <class T>
  Request send(View<T> in, int to, int tag) {
    using E = std::remove_const_t<T>;
    return message<const E>(true, "receiver", in, to, tag);
  }

  template <class T>
  Request recv(View<T> out, int from, int tag) {
    Request request = message<T>(false, "sender", out, from, tag);
    if (from != rank()) world().traffic.message<T>(out.size());
    return request;
  }

  /// The host waits until all ranks have called it; communication that has begun is done then.
  void barrier() {
    begin<std::byte>("barrier", -1, 0);
    static_cast<void>(detail::nccl_agree(*group_, 0));
  }
  [[nodiscard]] index_t agree(index_t value) {
    begin<std::byte>("agree", -1, 0);
    return detail::nccl_agree(*group_, value);
  }
  /// `all` = the words of all ranks, in rank order, as many as `mine` of each. Both are memory of the host.
  void gather_words(std::span<const std::int64_t> mine, std::span<std::int64_t> all) {
    begin<std::byte>("gather_words", -1, 0);
    detail::nccl_gather_words(*group_, mine, all);
  }

  /// Nothing is read in place, and what writes a lent block later waits on the stream until it is sent.
  void drain() { world().check_alive(); }

  [[nodiscard]] std::optional<NcclComm> split(int color, int key) {
    begin<std::byte>("split", -1, 0);
    world().guard([&] { world().sync(); });  // NCCL splits no communicator with work under way
    const auto make = [&](ncclComm_t* comm, ncclConfig_t* config) {
      return ncclCommSplit(group_->comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, comm, config);
    };
    auto part = detail::make_nccl_group(group_->world, "ncclCommSplit", group_->comm, make);
    if (part == nullptr) return std::nullopt;
    return NcclComm(std::move(part));
  }

  [[nodiscard]] std::optional<NcclComm> subset(int n) {
    if (n < 1 || n > size()) {
      throw ArgumentError("ArgumentError: subset of " + std::to_string(n) + " ranks, the communicator has " +
                          std::to_string(size()) + "; ask for 1 to that many");
    }
    return split(rank() < n ? 0 : -1, rank());
  }

  void abort(const std::string& reason) { world().fail(reason); }

  /// Device memory, ordered by the timeline: it may be freed while work on it is under way. Throws CapacityError.
  [[nodiscard]] Memory allocate(std::size_t bytes) { return detail::allocate_on_device(timeline(), bytes); }

  /// Of this rank, over all communicators split from one; counted when an operation begins.
  [[nodiscard]] Traffic traffic() const noexcept { return world().traffic.total; }

  /// NCCL's handle, for the user's own calls on timeline()->communication(), in the same order on all ranks.
  [[nodiscard]] ncclComm_t native() const noexcept { return group_->comm; }

 private:
  explicit NcclComm(std::shared_ptr<detail::NcclGroup> group) noexcept : group_(std::move(group)) {}

  [[nodiscard]] detail::NcclWorld& world() const noexcept { return *group_->world; }
  [[nodiscard]] Request done() const { return Request(group_->world); }
  void check_root(const char* operation, int root) const { detail::check_member(operation, "root", root, size()); }

  /// Reports the operation, and begins the messages before it.
  template <class T>
  void begin(const char* name, int root, index_t elements) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    world().check_alive();
    emit({name, rank(), size(), root, elements, elements * static_cast<index_t>(sizeof(T))});
    detail::begin_messages(world());
    world().accesses.clear();
  }
  template <class T>
  Request message(bool sends, const char* role, View<T> view, int peer, int tag) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    const char* const name = sends ? "send" : "recv";
    detail::check_member(name, role, peer, size());
    detail::check_view(name, "the buffer", view);
    world().check_alive();
    emit({name, rank(), size(), peer, view.size(), view.size() * static_cast<index_t>(sizeof(T))});
    auto made = std::make_shared<detail::NcclMessage>();
    made->group = group_;
    made->sends = sends;
    made->peer = peer;
    made->tag = tag;
    made->shape = view.shape();
    made->element_bytes = sizeof(T);
    made->block = detail::nccl_block(view);
    made->access = cuda_access(view);
    detail::add_message(made);
    return Request(std::move(made));
  }

  std::shared_ptr<detail::NcclGroup> group_;
};

static_assert(Communicator<NcclComm>);
static_assert(OnDevice<NcclComm>);

}  // namespace partita
