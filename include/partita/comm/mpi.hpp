// SPDX-License-Identifier: Apache-2.0
// MpiComm: the communicator among MPI processes. An opt-in include: it needs mpi.h and links with MPI.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "partita/comm/concepts.hpp"
#include "partita/comm/mpi/launch.hpp"
#include "partita/comm/mpi/node_sums.hpp"
#include "partita/comm/mpi/panel.hpp"
#include "partita/comm/mpi/request.hpp"
#include "partita/comm/mpi/runtime.hpp"
#include "partita/trace/event.hpp"

namespace partita {

/// A rank of the user's MPI communicator, or of one split from it. MPI is initialised by the user, or by MpiRuntime or
/// launch_mpi where he asks for it. An MpiComm belongs to the thread that made it, as do its requests and panels.
///
/// Communicators. The user's is duplicated, collectively, and never used itself; each split makes one, and the
/// destructor of the last handle frees it: like the split, on all of its ranks. A destructor frees nothing while an
/// exception unwinds, after a failure, or when MPI is finalised.
///
/// Data move as bytes, so any trivially copyable element will do; rectangles with gaps are packed. Sums run in rank
/// order, whatever MPI would do: each part of a result is added up by one rank, straight from and to the blocks where
/// all ranks share a node; else contributions travel to it. Longer messages than MpiOptions::chunk are cut. Tags of
/// send and recv lie in [0, last_tag()].
///
/// Panels are read in place by the ranks of the owner's node where the block lies in memory of allocate() (a shared
/// window, MpiOptions::arena); other blocks are copied there once. On other nodes one rank receives and passes on. A
/// rank that still holds a panel when the 64th after it is begun gets ArgumentError.
///
/// Failure. A rank that meets an error of the world, abandons a request or calls abort() sends a notice to all others,
/// which leave their waits with PeerFailed. MPI cannot recover: the communicator is dead, and the job should end, as
/// launch_mpi and run_mpi do it.
class MpiComm {
 public:
  using Request = MpiRequest;
  template <class T>
  using Panel = MpiPanel<T>;
  static constexpr bool panels_in_place = false;

  /// Collective over `user`. Errors: ArgumentError before MPI_Init and after MPI_Finalize; MpiError.
  explicit MpiComm(MPI_Comm user, const MpiOptions& options = {}) : MpiComm(detail::make_world(user, options)) {}
  /// Collective over the world's ranks.
  explicit MpiComm(std::shared_ptr<detail::MpiWorld> world) : group_(detail::make_group(std::move(world))) {}

  [[nodiscard]] int rank() const noexcept { return group_->rank; }
  [[nodiscard]] int size() const noexcept { return group_->size; }

  template <class T>
  [[nodiscard]] Request broadcast(View<T> out, int root) {
    check_root("broadcast", root);
    detail::check_view("broadcast", "the buffer", out);
    begin<T>("broadcast", root, out.size());
    if (out.empty() || size() == 1) return {};
    return start(make<detail::MpiBroadcast<T>>(group_, out, root));
  }

  template <class T>
  [[nodiscard]] Panel<T> broadcast_panel(std::type_identity_t<View<const T>> in, View<T> out, int root) {
    check_root("broadcast_panel", root);
    const bool lends = rank() == root;
    const View<const T> seen = lends ? in : View<const T>(out);
    detail::check_view("broadcast_panel", lends ? "the lent block" : "the buffer", seen);
    if (group_->board.lags(group_->panels)) {
      throw ArgumentError(
          "ArgumentError: broadcast_panel while this rank holds a panel 64 before it; release that first");
    }
    const int tag = begin<T>("broadcast_panel", root, seen.size());
    const std::uint64_t number = group_->panels++;
    if (seen.empty() || size() == 1) return Panel<T>(seen);
    if (lends) {
      auto loan = make<detail::MpiLoan<T>>(group_, in, number, tag);
      group_->world->begin(loan);
      return Panel<T>(in, group_, std::move(loan));
    }
    auto borrow = make<detail::MpiBorrow<T>>(group_, out, root, number, tag);
    group_->world->begin(borrow);
    return Panel<T>(group_, std::move(borrow));
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
    const int tag = begin<T>("reduce", root, in.size());
    if (in.empty()) return {};
    if (meets()) return start(make<detail::MpiNodeReduce<T>>(group_, in, out, root, into, tag));
    return start(detail::reduce_by_messages<T>(group_, in, out, root, into, tag));
  }

  template <class T>
  [[nodiscard]] Request all_reduce(std::type_identity_t<View<const T>> in, View<T> out, ReduceOp op = ReduceOp::sum) {
    detail::check_reduction<T>("all_reduce", op);
    detail::check_view("all_reduce", "the input", in);
    detail::check_view("all_reduce", "the output", out);
    detail::check_shape("all_reduce", "the output", out.shape(), in.shape());
    detail::check_same_or_apart<T>("all_reduce", in, out);
    const int tag = begin<T>("all_reduce", -1, in.size());
    if (in.empty()) return {};
    if (meets()) return start(make<detail::MpiNodeAllReduce<T>>(group_, in, out, op, tag));
    return start(make<detail::MpiAllReduce<T>>(group_, in, out, op, tag));
  }

  template <class T>
  [[nodiscard]] Request reduce_scatter(std::type_identity_t<View<const T>> in, View<T> out,
                                       std::span<const Block> blocks) {
    detail::check_reduction<T>("reduce_scatter", ReduceOp::sum);
    detail::check_view("reduce_scatter", "the input", in);
    detail::check_view("reduce_scatter", "the output", out);
    detail::check_blocks("reduce_scatter", blocks, rank(), size(), in.shape(), out.shape());
    const Block own = blocks[static_cast<std::size_t>(rank())];
    detail::check_own_place<T>("reduce_scatter", out, in, own);
    const int tag = begin<T>("reduce_scatter", -1, in.size());
    if (in.empty()) return {};
    if (meets()) return start(make<detail::MpiNodeReduceScatter<T>>(group_, in, out, blocks, tag));
    return start(detail::reduce_scatter_by_messages<T>(group_, in, out, blocks, tag));
  }

  template <class T>
  [[nodiscard]] Request all_gather(std::type_identity_t<View<const T>> in, View<T> out, std::span<const Block> blocks) {
    detail::check_view("all_gather", "the input", in);
    detail::check_view("all_gather", "the output", out);
    detail::check_blocks("all_gather", blocks, rank(), size(), out.shape(), in.shape());
    const Block own = blocks[static_cast<std::size_t>(rank())];
    detail::check_own_place<T>("all_gather", in, out, own);
    const int tag = begin<T>("all_gather", -1, out.size());
    if (out.empty()) return {};
    if (meets()) return start(make<detail::MpiNodeAllGather<T>>(group_, in, out, blocks, tag));
    return start(detail::all_gather_by_messages<T>(group_, in, out, blocks, tag));
  }

  template <class T>
  [[nodiscard]] Request all_to_all_v(std::type_identity_t<std::span<const View<const T>>> sends,
                                     std::span<const View<T>> receives) {
    detail::check_exchange<T>("all_to_all_v", sends, receives, rank(), size());
    index_t total = 0;
    for (const View<T>& v : receives) total += v.size();
    const int tag = begin<T>("all_to_all_v", -1, total);
    auto task = make<detail::MpiExchange<T>>("all_to_all_v", group_, tag);
    group_->for_peers([&](int r) { task->receive(receives[static_cast<std::size_t>(r)], r); });
    group_->for_peers([&](int r) { task->send(sends[static_cast<std::size_t>(r)], r); });
    const auto own = static_cast<std::size_t>(rank());
    detail::copy_rectangle(sends[own], receives[own]);
    return start(std::move(task));
  }

  template <class T>
  [[nodiscard]] Request send(View<T> in, int to, int tag) {
    using E = std::remove_const_t<T>;
    begin_message<E>("send", "receiver", in, to, tag);
    auto task = make<detail::MpiExchange<E>>("send", group_, tag);
    task->send(in, to);
    return start(std::move(task));
  }

  template <class T>
  [[nodiscard]] Request recv(View<T> out, int from, int tag) {
    begin_message<T>("recv", "sender", out, from, tag);
    auto task = make<detail::MpiExchange<T>>("recv", group_, tag);
    task->receive(out, from);
    return start(std::move(task));
  }

  void barrier() {
    begin<std::byte>("barrier", -1, 0);
    detail::meet(group_, "barrier");
  }

  [[nodiscard]] index_t agree(index_t value) {
    begin<std::byte>("agree", -1, 0);
    return detail::agree_among(group_, "agree", value);
  }

  void drain() {
    group_->world->check_alive();
    if (group_->loans > 0) group_->world->wait_until("drain", [this] { return group_->loans == 0; });
  }

  [[nodiscard]] std::optional<MpiComm> split(int color, int key) {
    begin<std::byte>("split", -1, 0);
    // MPI's own split knows no deadline. A rank that comes after its peers have given up does not meet them twice.
    for (int round = 0; round < 2; ++round) detail::meet(group_, "split");
    MPI_Comm made = MPI_COMM_NULL;
    detail::mpi_check(MPI_Comm_split(group_->comm, color < 0 ? MPI_UNDEFINED : color, key, &made), "MPI_Comm_split");
    if (made == MPI_COMM_NULL) return std::nullopt;
    return MpiComm(std::make_shared<detail::MpiGroup>(group_->world, made));
  }

  [[nodiscard]] std::optional<MpiComm> subset(int n) {
    if (n < 1 || n > size()) {
      throw ArgumentError("ArgumentError: subset of " + std::to_string(n) + " ranks, the communicator has " +
                          std::to_string(size()) + "; ask for 1 to that many");
    }
    return split(rank() < n ? 0 : -1, rank());
  }

  /// Tells all ranks of the world; MPI_Abort is the launcher's.
  void abort(const std::string& reason) { group_->world->fail(reason); }

  [[nodiscard]] Memory allocate(std::size_t bytes) {
    return detail::allocate_mpi(group_->world->arena(), group_->world->rank(), bytes);
  }

  /// Of this rank, over all communicators of the world. Complete for the operations that it has waited for.
  [[nodiscard]] Traffic traffic() const noexcept { return group_->world->traffic; }

  /// Frees the communicator now. Collective; nothing but the destructor may follow. The world's window and its own two
  /// communicators go with the last handle of the world: memory from allocate() must be given back before.
  void close() { group_.reset(); }

  /// The communicator under this one, for the user's own calls; what it carries must not meet tags or collectives of
  /// operations under way.
  [[nodiscard]] MPI_Comm native() const noexcept { return group_->comm; }
  [[nodiscard]] int last_tag() const noexcept { return group_->world->last_user_tag(); }
  [[nodiscard]] const MpiStatistics& statistics() const noexcept { return group_->world->statistics; }
  [[nodiscard]] const std::shared_ptr<detail::MpiWorld>& world() const noexcept { return group_->world; }
  /// Communicators of all worlds that this process has made and not freed.
  [[nodiscard]] static int live_communicators() noexcept { return detail::mpi_live_communicators; }

 private:
  explicit MpiComm(std::shared_ptr<detail::MpiGroup> group) noexcept : group_(std::move(group)) {}

  void check_root(const char* operation, int root) const { detail::check_member(operation, "root", root, size()); }

  /// Whether all ranks share memory, and meet there.
  [[nodiscard]] bool meets() const noexcept { return static_cast<bool>(group_->meetings); }
  template <class Task, class... Args>
  [[nodiscard]] std::shared_ptr<Task> make(Args&&... args) const {
    return group_->world->make<Task>(std::forward<Args>(args)...);
  }

  /// Reports the operation, and gives the tag of its first phase.
  template <class T>
  int begin(const char* name, int root, index_t elements) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    group_->world->check_alive();
    emit({name, rank(), size(), root, elements, elements * static_cast<index_t>(sizeof(T))});
    return group_->world->operation_tag(group_->operations++, 0);
  }

  template <class T>
  void begin_message(const char* name, const char* role, View<const T> view, int peer, int tag) {
    static_assert(std::is_trivially_copyable_v<T>, "only trivially copyable elements move between ranks");
    detail::check_member(name, role, peer, size());
    detail::check_view(name, "the buffer", view);
    if (tag < 0 || tag > last_tag()) {
      throw ArgumentError(std::string("ArgumentError: ") + name + " with tag " + std::to_string(tag) +
                          ", under this MPI it can be 0 to " + std::to_string(last_tag()));
    }
    group_->world->check_alive();
    emit({name, rank(), size(), peer, view.size(), view.size() * static_cast<index_t>(sizeof(T))});
  }

  Request start(std::shared_ptr<detail::MpiTask> task) {
    group_->world->begin(task);
    return Request(group_->world, std::move(task));
  }

  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(Communicator<MpiComm>);

}  // namespace partita
