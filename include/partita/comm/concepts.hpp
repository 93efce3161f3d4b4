// SPDX-License-Identifier: Apache-2.0
// What a communicator is: the collectives among a set of ranks, as requests, over strided row-major views.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "partita/base/scalar.hpp"
#include "partita/base/view.hpp"

namespace partita {

enum class ReduceOp { sum, max };

/// What a reduction does with what already stands in its output.
enum class Into { overwrite, accumulate };

/// Elements moved and messages, as seen by one rank. The rule is the same for every communicator, whatever it does
/// underneath, and agrees with the count of a schedule (schedule/count.hpp). A message is what one peer contributes
/// to one call; without elements there is none.
///   broadcast, panel   n at each non-root (received), 1 message
///   reduce             n at each non-root (sent), 1 message
///   reduce_scatter     n minus the own block (sent), a message for each other rank's block
///   all_gather         n minus the own block (received), likewise
///   all_reduce         twice n minus the own chunk; chunks of the n elements in row-major order by the balanced cut
///   all_to_all_v       what is received from others
///   send, recv         n at the receiver
/// `barrier`, `agree`, `split` and `drain` are control traffic and count nothing.
struct Traffic {
  index_t messages = 0;
  index_t elements = 0;
  index_t bytes = 0;

  constexpr void add(index_t message_count, index_t element_count, std::size_t element_bytes) noexcept {
    messages += message_count;
    elements += element_count;
    bytes += element_count * static_cast<index_t>(element_bytes);
  }
  friend constexpr Traffic operator-(Traffic a, Traffic b) noexcept {
    return {a.messages - b.messages, a.elements - b.elements, a.bytes - b.bytes};
  }
  friend constexpr bool operator==(const Traffic&, const Traffic&) = default;
};

/// Memory that the peers of its communicator can reach; freed by the communicator that gave it.
struct MemoryDeleter {
  void (*free)(void* data, void* owner) = nullptr;
  void* owner = nullptr;
  void operator()(std::byte* data) const noexcept {
    if (free != nullptr) free(data, owner);
  }
};
using Memory = std::unique_ptr<std::byte[], MemoryDeleter>;

/// A pending operation. `wait()` returns when the caller's buffers may be used again; waiting twice is harmless.
/// A request that is destroyed without wait() abandons the operation (an error path): it never blocks.
template <class R>
concept CommRequest = std::movable<R> && requires(R r) {
  { r.wait() } -> std::same_as<void>;
};

/// What a non-root receives from a panel broadcast. After `wait()`, `view()` is either the owner's own block, read in
/// place, or the caller's buffer. The owner may not write the block until every peer has called `release()`.
template <class P, class T>
concept CommPanel = std::movable<P> && requires(P p, const P c) {
  { p.wait() } -> std::same_as<void>;
  { c.view() } -> std::convertible_to<View<const T>>;
  { p.release() } -> std::same_as<void>;
};

/// Collectives are entered by every rank of the communicator in the same order. Counts are 64 bit. Data operations
/// return at once; `wait()` on what they return completes them. The `blocks` of one call have an entry for each rank,
/// are the same on all ranks, and must outlive the wait, as must all views. Sums run in rank order: same bits on
/// every run and on every replica. Buffers of one call that overlap (other than being one and the same buffer, or a
/// block in its own place) are refused with AliasError before anything moves; a root or peer outside [0, size) with
/// ArgumentError; an own buffer whose shape is not its block's with ShapeError. When a rank fails, its peers leave
/// with PeerFailed; a wait beyond the deadline throws TimeoutError and fails the peers.
template <class C>
concept Communicator =
    std::movable<C> && CommRequest<typename C::Request> && CommPanel<typename C::template Panel<double>, double> &&
    requires(C c, const C cc, View<double> out, View<const double> in, std::span<const Block> blocks,
             std::span<const View<const double>> sends, std::span<const View<double>> receives, int n, index_t value,
             std::string reason, std::size_t bytes) {
      { cc.rank() } -> std::same_as<int>;
      { cc.size() } -> std::same_as<int>;

      // Whether panels are read in the owner's block, so that a caller need not give a buffer.
      { C::panels_in_place } -> std::convertible_to<bool>;

      // Copies root's `out` into every rank's `out`.
      { c.broadcast(out, n) } -> std::same_as<typename C::Request>;
      // Lends root's `in` to all. `out` is the buffer of a non-root: its shape says what is expected; where panels
      // are read in place its pointer is not used. On the root the panel is `in` itself.
      { c.broadcast_panel(in, out, n) } -> std::same_as<typename C::template Panel<double>>;
      // Root's `out` = (or +=) the sum over ranks of `in`; `out` is read on the root only.
      { c.reduce(in, out, n, Into::accumulate) } -> std::same_as<typename C::Request>;
      // `out` = sum or maximum over ranks of `in`, on all; `in` may be `out`.
      { c.all_reduce(in, out, ReduceOp::sum) } -> std::same_as<typename C::Request>;
      // `out` = the sum over ranks of the rectangle blocks[rank] of `in`.
      { c.reduce_scatter(in, out, blocks) } -> std::same_as<typename C::Request>;
      // The rectangle blocks[r] of `out` = `in` of rank r; `in` may stand in its own place in `out`.
      { c.all_gather(in, out, blocks) } -> std::same_as<typename C::Request>;
      // receives[r] = sends[rank] of rank r; shapes must match pairwise.
      { c.all_to_all_v(sends, receives) } -> std::same_as<typename C::Request>;
      // Matched in order for each (sender, receiver, tag); see messages_in_order below.
      { c.send(in, n, n) } -> std::same_as<typename C::Request>;
      { c.recv(out, n, n) } -> std::same_as<typename C::Request>;

      { c.barrier() } -> std::same_as<void>;
      // The largest `value` of all ranks, on all ranks: how verdicts are agreed. Control traffic.
      { c.agree(value) } -> std::same_as<index_t>;
      // Returns when every panel that this rank has lent is released. Local: peers need not call it.
      { c.drain() } -> std::same_as<void>;

      // Ranks of equal colour form a communicator, ordered by key, then by rank; a negative colour joins none.
      { c.split(n, n) } -> std::same_as<std::optional<C>>;
      // The first n ranks; the others are idle and get nothing.
      { c.subset(n) } -> std::same_as<std::optional<C>>;

      // Marks the communicator and all it was split from or into as failed by this rank: peers leave their waits.
      { c.abort(reason) } -> std::same_as<void>;
      { c.allocate(bytes) } -> std::same_as<Memory>;
      { cc.traffic() } -> std::same_as<Traffic>;
    };

/// Views hold addresses of a device. Calls are ordered on the streams of timeline() (cuda/timeline.hpp), which the
/// rank's backend shares; wait() does not make the host wait. What the host itself must tell and know travels by
/// gather_words(): all = the words of every rank, in rank order; control traffic, which waits.
template <class C>
concept OnDevice = requires(const C& c) { c.timeline(); };

/// Whether panels better move as all-gathers of slices than as broadcasts, where nothing else is asked for.
template <class C>
inline constexpr bool prefers_all_gather = requires { requires C::prefers_all_gather; };

/// Whether the sum of a local product's result better begins in parts, while the rest is multiplied, likewise.
template <class C>
inline constexpr bool prefers_cut_sums = requires { requires C::prefers_cut_sums; };

/// Whether messages are matched in order for each (sender, receiver), whatever their tags: a receiver asks for them in
/// the order in which they are sent.
template <class C>
inline constexpr bool messages_in_order = requires { requires C::messages_in_order; };

/// A communicator whose ranks share cores may have compute_turn(): while what it returns lives, no other rank computes
/// on the core of this one. Its holder must wait for no rank. Others give nothing to hold.
template <class C>
[[nodiscard]] auto compute_turn([[maybe_unused]] C& comm) {
  if constexpr (requires { comm.compute_turn(); }) {
    return comm.compute_turn();
  } else {
    return std::monostate{};
  }
}

/// A communicator whose ranks read each other's memory may have lend(in, place, whole): a collective with which every
/// rank lends its block to all, in one step, where panels of all ranks would follow each other. The block is the
/// rectangle `place` of a matrix of shape `whole`, which is the same on all ranks. panel_of<T>(lending, root, part),
/// which is local, is the panel of a rectangle of that matrix that root holds, and an event and traffic as
/// broadcast_panel is. A lending outlives its panels, and counts for drain() until all have released theirs.
/// ArgumentError for a panel of another element type, ShapeError where what is lent does not hold it.
///
/// While the rank of a panel waits in share_work(), another thread may look whether it is lent(), read it as
/// lent_view(), and end its loan, and that of the lending: wait() and release() find then that nothing is left to do.
template <class C>
concept LendsBlocks = requires(C c, View<const double> in, Block block, Shape whole, typename C::Lending lending,
                               int root, typename C::template Panel<double> panel) {
  { c.lend(in, block, whole) } -> std::same_as<typename C::Lending>;
  { c.template panel_of<double>(lending, root, block) } -> std::same_as<typename C::template Panel<double>>;
  { panel.lent() } -> std::same_as<bool>;
  { panel.lent_view() } -> std::same_as<View<const double>>;
  { panel.end_loan() } -> std::same_as<void>;
  { lending.end_loan() } -> std::same_as<void>;
  { lending.release() } -> std::same_as<void>;
};

namespace detail {
template <class C>
struct LendingOf {
  using type = std::monostate;
};
template <LendsBlocks C>
struct LendingOf<C> {
  using type = typename C::Lending;
};
}  // namespace detail
template <class C>
using lending_t = typename detail::LendingOf<C>::type;

/// A communicator whose ranks share cores may have share_work(ready, run, work), with which a rank that waits has local
/// work done by whichever thread has a core to spare, its own or that of a rank that waits too. run(work) does a piece
/// and says whether it was the last; what it throws ends the work, and is thrown here. True once all has been run.
/// False where cores are not shared, the communicator has failed, or nobody could run it for a while: the caller waits
/// in its own way then, and does what is left itself. Both are called while the caller's thread waits, on any thread
/// and not twice at once; neither may wait, and ready(work) may not throw. Memory that peers have lent is safe to read
/// while run() does.
template <class C>
concept SharesWork = requires(C c, bool (*ready)(void*), bool (*run)(void*), void* work) {
  { c.share_work(ready, run, work) } -> std::same_as<bool>;
};

namespace detail {

/// True if the two views share an element position in memory. Strided views that interleave without touching
/// (columns of one matrix) are told apart when they have the same leading dimension.
template <class T>
[[nodiscard]] bool overlap(View<const T> a, View<const T> b) noexcept {
  if (a.empty() || b.empty()) return false;
  const auto ea = extent_of(a);
  const auto eb = extent_of(b);
  const std::less<const T*> before;
  if (!before(ea.begin, eb.end) || !before(eb.begin, ea.end)) return false;
  if (a.ld != b.ld || a.ld <= 0) return true;
  // Columns of one matrix: positions modulo the leading dimension, relative to a's first element.
  const index_t shift = static_cast<index_t>(b.data - a.data) % a.ld;
  const index_t start = shift < 0 ? shift + a.ld : shift;
  return start < a.cols || start + b.cols > a.ld;
}

}  // namespace detail
}  // namespace partita
